// Eight readers put records into a queue of four, and two writers store them, each for 1 ms. The readers wait
// until a slot is free: the writers are slow. Each writer confirms a record through a second queue, from which one
// goroutine counts. No one takes out what it has put in.
package main

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"
)

const readers, writers, slots = 8, 2, 4

type record struct {
	number int
	body   []byte
}

func read(first, records int, queue chan<- record) {
	for number := first; number < records; number += readers {
		body := make([]byte, 1024)
		for i := range body {
			body[i] = byte(number + i)
		}
		queue <- record{number, body}
	}
}

func store(queue <-chan record, stored chan<- int) {
	for one := range queue {
		time.Sleep(time.Millisecond)
		stored <- one.number + len(one.body)
	}
}

func main() {
	records, _ := strconv.Atoi(os.Args[1])
	queue, stored := make(chan record, slots), make(chan int, slots)
	var reading, writing sync.WaitGroup
	for first := 0; first < readers; first++ {
		reading.Go(func() { read(first, records, queue) })
	}
	for range writers {
		writing.Go(func() { store(queue, stored) })
	}
	go func() {
		reading.Wait()
		close(queue)
		writing.Wait()
		close(stored)
	}()
	sum := 0
	for number := range stored {
		sum += number
	}
	fmt.Fprintln(os.Stderr, "sum", sum)
	fmt.Printf("progress: %d records\n", records)
}
