// Eight goroutines that compute, lock and sleep.
package main

import (
	"crypto/sha256"
	"fmt"
	"sync"
	"time"
)

func descend(depth int) int {
	if depth == 0 {
		sum := sha256.Sum256(make([]byte, 20000))
		return int(sum[0])
	}
	return descend(depth-1) + 1
}

func main() {
	var all sync.WaitGroup
	var lock sync.Mutex
	total := 0
	for worker := 0; worker < 8; worker++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for turn := 0; turn < 12000; turn++ {
				value := descend(turn % 15)
				lock.Lock()
				total += value
				lock.Unlock()
				if turn%50 == 0 {
					time.Sleep(100 * time.Microsecond)
				}
			}
		}()
	}
	all.Wait()
	fmt.Println(total)
}
