// Two goroutines look for words in numbers: each number becomes a small text, which is garbage at once. The collector runs
// often, finds next to nothing alive, and nobody notices.
package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
)

func look(seed uint64, rounds int) int {
	found, state := 0, seed
	for i := 0; i < rounds; i++ {
		for step := 0; step < 2000; step++ {
			state ^= state << 13
			state ^= state >> 7
			state ^= state << 17
		}
		text := strings.Repeat(strconv.FormatUint(state, 10), 8)
		found += strings.Count(text, "77")
	}
	return found
}

func main() {
	rounds, _ := strconv.Atoi(os.Args[1])
	var over sync.WaitGroup
	var found [2]int
	for i := range found {
		over.Go(func() { found[i] = look(uint64(i)+88172645463325252, rounds) })
	}
	over.Wait()
	fmt.Println(found[0] + found[1])
	fmt.Printf("progress: %d texts\n", 2*rounds)
}
