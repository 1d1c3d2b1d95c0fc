// One goroutine makes numbers, slowly; four others look for their factors, and each enters what it found in a map of its own,
// under a lock that the one who sums up takes at the end. They wait for work most of the time, and never for a lock. The
// sieve that each number takes is garbage soon: it is collected some dozen times, which costs next to nothing.
package main

import (
	"fmt"
	"os"
	"strconv"
	"sync"
)

type finder struct {
	lock  sync.Mutex
	found map[uint64]int
}

func (f *finder) look(numbers <-chan uint64) {
	for number := range numbers {
		smallest := number
		crossed := make([]bool, 40000)
		for prime := 2; prime < len(crossed); prime++ {
			if crossed[prime] {
				continue
			}
			if number%uint64(prime) == 0 {
				smallest = uint64(prime)
				break
			}
			for multiple := prime * prime; multiple < len(crossed); multiple += prime {
				crossed[multiple] = true
			}
		}
		f.lock.Lock()
		f.found[smallest]++
		f.lock.Unlock()
	}
}

func next(state uint64) uint64 {
	for i := 0; i < 300000; i++ {
		state ^= state << 13
		state ^= state >> 7
		state ^= state << 17
	}
	return state
}

func main() {
	wanted, _ := strconv.Atoi(os.Args[1])
	numbers := make(chan uint64)
	finders := make([]finder, 4)
	var over sync.WaitGroup
	for i := range finders {
		finders[i].found = map[uint64]int{}
		over.Go(func() { finders[i].look(numbers) })
	}
	state := uint64(88172645463325252)
	for i := 0; i < wanted; i++ {
		state = next(state)
		numbers <- state | 1
	}
	close(numbers)
	over.Wait()
	kinds := 0
	for i := range finders {
		finders[i].lock.Lock()
		kinds += len(finders[i].found)
		finders[i].lock.Unlock()
	}
	fmt.Fprintln(os.Stderr, kinds, "kinds")
	fmt.Printf("progress: %d numbers\n", wanted)
}
