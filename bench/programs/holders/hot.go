// Four goroutines that need one lock all the time, and what Go's own mutex profile says of it.
package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"sync"
	"time"
)

var lock sync.Mutex

//go:noinline
func underLock(sums *[32]byte) {
	for i := 0; i < 20; i++ {
		*sums = sha256.Sum256(sums[:])
	}
}

func worker(until time.Time, turns *int, all *sync.WaitGroup) {
	defer all.Done()
	var own, shared [32]byte
	for time.Now().Before(until) {
		own = sha256.Sum256(own[:])
		lock.Lock()
		underLock(&shared)
		lock.Unlock()
		*turns++
	}
}

func main() {
	runtime.SetMutexProfileFraction(1)
	var all sync.WaitGroup
	var turns [4]int
	until := time.Now().Add(4 * time.Second)
	for i := range turns {
		all.Add(1)
		go worker(until, &turns[i], &all)
	}
	all.Wait()
	fmt.Println(turns)
	pprof.Lookup("mutex").WriteTo(os.Stderr, 1)
}
