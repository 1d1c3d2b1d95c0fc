// Workers fetch pages through one client, which allows a number of requests at a time: the first argument. A
// request takes 2 ms at the peer, and its response is summed up. With two permits, most workers wait for one.
package main

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"
)

const workers = 32

type client struct {
	permits chan struct{}
}

func request(page int) []byte {
	time.Sleep(2 * time.Millisecond)
	body := make([]byte, 4096)
	for i := range body {
		body[i] = byte(page * (i + 7))
	}
	return body
}

func (c *client) fetch(page int) int {
	c.permits <- struct{}{}
	defer func() { <-c.permits }()
	sum := 0
	for _, one := range request(page) {
		sum += int(one)
	}
	return sum
}

func main() {
	permits, _ := strconv.Atoi(os.Args[1])
	pages, _ := strconv.Atoi(os.Args[2])
	c := &client{permits: make(chan struct{}, permits)}
	sums := make([]int, workers)
	var over sync.WaitGroup
	for worker := range sums {
		over.Go(func() {
			for page := worker; page < pages; page += workers {
				sums[worker] += c.fetch(page)
			}
		})
	}
	over.Wait()
	sum := 0
	for _, one := range sums {
		sum += one
	}
	fmt.Fprintln(os.Stderr, "sum", sum)
	fmt.Printf("progress: %d pages\n", pages)
}
