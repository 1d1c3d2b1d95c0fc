// Programs of two threads that share cache lines: `sharing NAME SECONDS`. Padding is a constant that -X cannot set: the
// benchmark writes another value into its copy. Says last how many steps were made, on standard error where the memory is.
package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

const (
	padding = 0
	batch   = 4096
	threads = 2
)

type tally struct {
	count uint64
	_     [padding]byte
}

type gauge struct {
	level atomic.Int64
	_     [padding]byte
}

var (
	_       [256]byte
	tallies [threads]tally
	total   [threads]gauge
	table   [512]uint64
	over    atomic.Bool
)

// With padding, each has its own; without it, all take the first.
func same(me int) int {
	if padding > 0 {
		return me
	}
	return 0
}

//go:noinline
func countGlobal(me int) {
	mine := &tallies[me]
	for i := 0; i < batch; i++ {
		atomic.StoreUint64(&mine.count, mine.count+1)
	}
}

//go:noinline
func countPlain(mine *tally) {
	for i := 0; i < batch; i++ {
		mine.count += uint64(i) ^ mine.count>>3
		keep(mine)
	}
}

//go:noinline
func keep(*tally) {}

//go:noinline
func raise(level *gauge) {
	for i := 0; i < batch; i++ {
		level.level.Add(1)
	}
}

//go:noinline
func lookUp(me int) uint64 {
	at := uint64(me)
	for i := uint64(0); i < batch; i++ {
		at = table[at%512] + i
	}
	return at
}

func tell[T any](memory *T) {
	address := uintptr(unsafe.Pointer(memory))
	fmt.Fprintf(os.Stderr, "memory: %#x %#x\n", address, address+unsafe.Sizeof(*memory))
}

func main() {
	seconds, _ := strconv.ParseFloat(os.Args[2], 64)
	heap := new([threads]tally)
	gauges := make([]gauge, threads)
	runtime.KeepAlive(heap)
	var step func(me int)
	switch os.Args[1] {
	case "global-array":
		tell(&tallies)
		step = countGlobal
	case "heap-plain":
		tell(heap)
		// A pointer into the array is checked by a read of its first byte, which is another thread's.
		parts := [threads]*tally{&heap[0], &heap[1]}
		step = func(me int) { countPlain(parts[me]) }
	case "slice-atomics":
		fmt.Fprintf(os.Stderr, "memory: %p %#x\n", &gauges[0], uintptr(unsafe.Pointer(&gauges[0]))+threads*unsafe.Sizeof(gauges[0]))
		step = func(me int) { raise(&gauges[me]) }
	case "shared-atomic":
		tell(&total)
		step = func(me int) { raise(&total[same(me)]) }
	default:
		tell(&table)
		step = func(me int) { lookUp(me) }
	}
	var made [threads * 32]uint64
	var workers sync.WaitGroup
	for me := range threads {
		workers.Add(1)
		go func() {
			defer workers.Done()
			runtime.LockOSThread()
			var mine uint64
			for !over.Load() {
				step(me)
				mine += batch
			}
			made[me*32] = mine
		}()
	}
	time.Sleep(time.Duration(seconds * 1e9))
	over.Store(true)
	workers.Wait()
	var sum uint64
	for _, mine := range made {
		sum += mine
	}
	fmt.Printf("progress: %d steps\n", sum)
}
