// One goroutine allocates, so that the collector stops the world; the other is in loops without a call, where it cannot be
// preempted if GODEBUG=asyncpreemptoff=1.
package main

import (
	"fmt"
	"runtime"
	"time"
)

type node struct{ left, right *node }

func tree(depth int) *node {
	if depth == 0 {
		return &node{}
	}
	return &node{tree(depth - 1), tree(depth - 1)}
}

func loop(rounds int) int {
	sum := 1
	for i := 0; i < rounds; i++ {
		sum = sum*31 + i
	}
	return sum
}

func main() {
	until := time.Now().Add(2 * time.Second)
	done := make(chan int)
	go func() {
		sum := 0
		for time.Now().Before(until) {
			sum += loop(20_000_000)
		}
		done <- sum
	}()
	trees := 0
	for time.Now().Before(until) {
		tree(14)
		trees++
	}
	fmt.Println(trees, <-done)
	// Waits for the collection that may be under way, of which the runtime would say nothing.
	runtime.GC()
}
