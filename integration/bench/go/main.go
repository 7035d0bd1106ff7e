// Go's own lock on etcd, concurrency.Mutex, as a process of the benchmark: it is asked by a line of JSON, and answers
// with one. All its sessions share one client.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"go.etcd.io/etcd/clientv3"
	"go.etcd.io/etcd/clientv3/concurrency"
	"go.uber.org/zap"
	"golang.org/x/sys/unix"
)

const ttlSeconds = 30

type order struct {
	Kind     string
	Ms       int
	InFlight int
	Name     string
	Waiters  int
	HoldMs   int
}

// As throughput/contestants.ts has it.
type run struct {
	PerSecond   float64   `json:"perSecond"`
	LatenciesMs []float64 `json:"latenciesMs"`
}

// Of one hold: when Lock returned, and when Unlock was called. Milliseconds.
type stamp [2]float64

type peer struct {
	client   *clientv3.Client
	sessions []*concurrency.Session
}

// A session is one lease and has one key in a queue, so whoever waits beside others needs one of its own.
func (p *peer) session(at int) *concurrency.Session {
	for len(p.sessions) <= at {
		session, err := concurrency.NewSession(p.client, concurrency.WithTTL(ttlSeconds))
		must(err)
		p.sessions = append(p.sessions, session)
	}
	return p.sessions[at]
}

func (p *peer) throughput(o order) run {
	session := p.session(0)
	latencies := make([][]float64, o.InFlight)
	begun := time.Now()
	end := begun.Add(milliseconds(o.Ms))
	together(o.InFlight, func(worker int) {
		mutex := concurrency.NewMutex(session, fmt.Sprintf("name-%d", worker))
		for at := begun; at.Before(end); {
			must(mutex.Lock(context.Background()))
			must(mutex.Unlock(context.Background()))
			now := time.Now()
			latencies[worker] = append(latencies[worker], now.Sub(at).Seconds()*1000)
			at = now
		}
	})
	seconds := time.Since(begun).Seconds()
	all := []float64{}
	for _, each := range latencies {
		all = append(all, each...)
	}
	return run{PerSecond: float64(len(all)) / seconds, LatenciesMs: all}
}

func (p *peer) handover(o order) []stamp {
	p.session(o.Waiters - 1)
	ctx, cancel := context.WithTimeout(context.Background(), milliseconds(o.Ms))
	defer cancel()
	stamps := make([][]stamp, o.Waiters)
	together(o.Waiters, func(waiter int) {
		mutex := concurrency.NewMutex(p.session(waiter), o.Name)
		for ctx.Err() == nil {
			if err := mutex.Lock(ctx); err != nil {
				if ctx.Err() == nil {
					must(err)
				}
				return
			}
			acquiredAt := monotonicMs()
			time.Sleep(milliseconds(o.HoldMs))
			stamps[waiter] = append(stamps[waiter], stamp{acquiredAt, monotonicMs()})
			must(mutex.Unlock(context.Background()))
		}
	})
	all := []stamp{}
	for _, each := range stamps {
		all = append(all, each...)
	}
	return all
}

func together(count int, work func(int)) {
	var group sync.WaitGroup
	for each := 0; each < count; each++ {
		group.Add(1)
		go func(each int) {
			defer group.Done()
			work(each)
		}(each)
	}
	group.Wait()
}

func milliseconds(ms int) time.Duration {
	return time.Duration(ms) * time.Millisecond
}

// By the clock that all processes of a machine share.
func monotonicMs() float64 {
	var at unix.Timespec
	must(unix.ClockGettime(unix.CLOCK_MONOTONIC, &at))
	return float64(at.Nano()) / 1e6
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "go-mutex:", err)
		os.Exit(1)
	}
}

func main() {
	// It warns of each wait that ends with its round.
	logs := zap.NewProductionConfig()
	logs.Level = zap.NewAtomicLevelAt(zap.ErrorLevel)
	client, err := clientv3.New(clientv3.Config{
		Endpoints:   os.Args[1:2],
		DialTimeout: 5 * time.Second,
		LogConfig:   &logs,
	})
	must(err)
	p := &peer{client: client}
	replies := json.NewEncoder(os.Stdout)
	must(replies.Encode("ready"))
	for orders := bufio.NewScanner(os.Stdin); orders.Scan(); {
		var o order
		must(json.Unmarshal(orders.Bytes(), &o))
		switch o.Kind {
		case "throughput":
			must(replies.Encode(p.throughput(o)))
		case "handover":
			must(replies.Encode(p.handover(o)))
		default:
			must(fmt.Errorf("no such order: %q", o.Kind))
		}
	}
}
