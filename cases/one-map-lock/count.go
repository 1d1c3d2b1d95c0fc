// Counts the page views of a site. Each worker takes parts of a log. With "shared", all count into one table behind a mutex.
// With "own", each counts into its own table, and the tables are added up at the end.
package main

import (
	"fmt"
	"os"
	"strconv"
	"sync"
)

const (
	workers = 8
	pages   = 1 << 14
)

type table struct {
	mutex  sync.Mutex
	visits map[uint64]uint64
}

// Counts one visit, and the pages from which it came.
func (t *table) count(page uint64) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	for step := uint64(0); step < 24; step++ {
		t.visits[(page+step*step)%pages]++
	}
}

// What of a line says which page it was.
func parse(seed uint64) uint64 {
	for round := 0; round < 160; round++ {
		seed ^= seed << 13
		seed ^= seed >> 7
		seed ^= seed << 17
	}
	return seed
}

func worker(number int, lines int, t *table) {
	seed := uint64(number + 1)
	for line := 0; line < lines; line++ {
		seed = parse(seed)
		t.count(seed)
	}
}

func main() {
	lines, err := strconv.Atoi(os.Args[2])
	if err != nil {
		fmt.Fprintln(os.Stderr, "usage: count shared|own LINES")
		os.Exit(2)
	}
	all := &table{visits: map[uint64]uint64{}}
	tables := make([]*table, workers)
	var wait sync.WaitGroup
	for number := range tables {
		tables[number] = all
		if os.Args[1] == "own" {
			tables[number] = &table{visits: map[uint64]uint64{}}
		}
		wait.Add(1)
		go func(number int) {
			defer wait.Done()
			worker(number, lines/workers, tables[number])
		}(number)
	}
	wait.Wait()
	total := uint64(0)
	for number, one := range tables {
		if one == all && number > 0 {
			break
		}
		for _, visits := range one.visits {
			total += visits
		}
	}
	fmt.Printf("%d visits\n", total)
	fmt.Printf("progress: %d lines\n", lines)
}
