/*
 * A client that asks a service over TLS, many requests at a time. The service answers at once.
 *
 * The standard transport keeps two idle connections to a host and closes further ones when their requests end. The next request then
 * opens a new connection, with a handshake. The twins differ only in -idle, the number of idle connections that are kept.
 */
package main

import (
	"crypto/tls"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

func quote(w http.ResponseWriter, r *http.Request) {
	item, _ := strconv.Atoi(r.URL.Query().Get("item"))
	time.Sleep(2 * time.Millisecond)
	fmt.Fprintf(w, "%d", 100+item%17)
}

func ask(client *http.Client, address string, item int) int {
	answer, err := client.Get(address + "/?item=" + strconv.Itoa(item))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	price, _ := strconv.Atoi(string(text))
	return price
}

func main() {
	idle := flag.Int("idle", http.DefaultMaxIdleConnsPerHost, "connections that are kept")
	items := flag.Int("items", 2000, "requests")
	flag.Parse()
	service := httptest.NewTLSServer(http.HandlerFunc(quote))
	defer service.Close()
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig:     &tls.Config{InsecureSkipVerify: true},
		MaxIdleConnsPerHost: *idle,
	}}
	var sum, next atomic.Int64
	var workers sync.WaitGroup
	for worker := 0; worker < 24; worker++ {
		workers.Add(1)
		go func() {
			defer workers.Done()
			for item := next.Add(1); item <= int64(*items); item = next.Add(1) {
				sum.Add(int64(ask(client, service.URL, int(item))))
			}
		}()
	}
	workers.Wait()
	fmt.Println(sum.Load())
	fmt.Printf("progress: %d requests\n", *items)
}
