// A client that asks a service over TLS through a few connections that it keeps: what is read is long, and is decrypted.
package main

import (
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"sync"
)

func main() {
	rounds := flag.Int("rounds", 400, "requests of each of four")
	flag.Parse()
	page := make([]byte, 1<<20)
	for i := range page {
		page[i] = byte(i * i)
	}
	service := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write(page) }))
	defer service.Close()
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig:     &tls.Config{InsecureSkipVerify: true},
		MaxIdleConnsPerHost: 4,
	}}
	var workers sync.WaitGroup
	for worker := 0; worker < 4; worker++ {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for round := 0; round < *rounds; round++ {
				answer, err := client.Get(service.URL)
				if err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
			}
		}()
	}
	workers.Wait()
	fmt.Printf("progress: %d pages\n", 4**rounds)
}
