package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/gateway/client"
	"github.com/switchyard-io/switchyard/shared/fault"
	"github.com/switchyard-io/switchyard/shared/subject"
)

const (
	loginTimeout = 60 * time.Second
	maxLine      = 16 << 20 // bytes of one line between coordinator and worker
)

// command is a line from the coordinator to a worker.
type command struct {
	Op          string   `json:"op"` // tickets, login, join, report, close
	NATS        string   `json:"nats,omitempty"`
	Gateways    []string `json:"gateways,omitempty"`
	First       int      `json:"first,omitempty"` // sessions First .. First+Count-1
	Count       int      `json:"count,omitempty"`
	Concurrency int      `json:"concurrency,omitempty"`
	Group       string   `json:"group,omitempty"`
}

// answer is a worker's line back.
type answer struct {
	Error    string                `json:"error,omitempty"`
	Done     int                   `json:"done"`
	Failed   int                   `json:"failed"`
	Failures map[string]int        `json:"failures,omitempty"` // by error text
	Received int64                 `json:"received"`
	Closed   int64                 `json:"closed"`
	Latency  hdrhistogram.Snapshot `json:"latency"`
}

// worker holds a part of the fleet.
type worker struct {
	latency  *recorder
	received atomic.Int64
	closed   atomic.Int64 // sessions that ended without being asked to
	closing  atomic.Bool
	tickets  []string
	first    int

	mu      sync.Mutex
	clients []*client.Client
}

// Work serves a coordinator on in and out until in ends.
func Work(ctx context.Context, in io.Reader, out io.Writer) error {
	w := &worker{latency: newRecorder()}
	defer w.closeAll()
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	enc := json.NewEncoder(out)
	for lines.Scan() {
		var cmd command
		if err := json.Unmarshal(lines.Bytes(), &cmd); err != nil {
			return fmt.Errorf("bench worker: %w", err)
		}
		if err := enc.Encode(w.do(ctx, cmd)); err != nil {
			return fmt.Errorf("bench worker: %w", err)
		}
	}
	return lines.Err()
}

func (w *worker) do(ctx context.Context, cmd command) answer {
	switch cmd.Op {
	case "tickets":
		return w.fetchTickets(ctx, cmd)
	case "login":
		return w.login(ctx, cmd)
	case "join":
		return w.each(cmd.Concurrency, func(c *client.Client) error {
			ctx, cancel := context.WithTimeout(ctx, loginTimeout)
			defer cancel()
			return c.JoinGroup(ctx, cmd.Group)
		})
	case "report":
		return answer{
			Received: w.received.Swap(0),
			Closed:   w.closed.Load(),
			Latency:  *w.latency.take().Export(),
		}
	case "close":
		w.closeAll()
		return answer{}
	}
	return answer{Error: "unknown command " + cmd.Op}
}

// fetchTickets has a ticket made for each session of the worker, ahead of the logins, so that a
// login's time is the login's alone.
func (w *worker) fetchTickets(ctx context.Context, cmd command) answer {
	nc, err := nats.Connect(cmd.NATS)
	if err != nil {
		return answer{Error: err.Error()}
	}
	defer nc.Close()
	w.first, w.tickets = cmd.First, make([]string, cmd.Count)
	return parallel(cmd.Count, cmd.Concurrency, func(i int) error {
		body, err := json.Marshal(map[string]any{"identity": user(cmd.First + i), "groups": []string{"*"}})
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, loginTimeout)
		defer cancel()
		reply, err := nc.RequestWithContext(ctx, subject.TicketIssue, body)
		if err != nil {
			return err
		}
		if e := fault.FromMsg(reply); e != nil {
			return e
		}
		var t struct {
			Ticket string `json:"ticket"`
		}
		err = json.Unmarshal(reply.Data, &t)
		w.tickets[i] = t.Ticket
		return err
	})
}

func (w *worker) login(ctx context.Context, cmd command) answer {
	w.closing.Store(false)
	a := parallel(len(w.tickets), cmd.Concurrency, func(i int) error {
		start := time.Now()
		c, err := w.connect(ctx, cmd.Gateways[(w.first+i)%len(cmd.Gateways)], w.tickets[i], w.first+i)
		if err != nil {
			return err
		}
		w.latency.record(time.Since(start))
		w.mu.Lock()
		defer w.mu.Unlock()
		w.clients = append(w.clients, c)
		return nil
	})
	w.tickets = nil
	a.Latency = *w.latency.take().Export()
	return a
}

func (w *worker) connect(ctx context.Context, url, ticket string, i int) (*client.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, loginTimeout)
	defer cancel()
	c, err := client.Dial(ctx, url, client.Options{OnPush: w.push, OnClose: w.ended})
	if err != nil {
		return nil, err
	}
	device := &client.Device{ID: fmt.Sprintf("bench-%d", i)}
	if _, err := c.Authenticate(ctx, client.Login{Ticket: ticket, Device: device}); err != nil {
		_ = c.Close() // the first error counts
		return nil, err
	}
	return c, nil
}

func (w *worker) push(_ *client.Client, p client.Push) {
	if at, ok := due(p.Payload); ok {
		w.latency.record(time.Since(at))
		w.received.Add(1)
	}
}

func (w *worker) ended(*client.Client, error) {
	if !w.closing.Load() {
		w.closed.Add(1)
	}
}

func (w *worker) each(concurrency int, do func(*client.Client) error) answer {
	w.mu.Lock()
	clients := w.clients
	w.mu.Unlock()
	return parallel(len(clients), concurrency, func(i int) error { return do(clients[i]) })
}

func (w *worker) closeAll() {
	w.closing.Store(true)
	w.mu.Lock()
	clients := w.clients
	w.clients = nil
	w.mu.Unlock()
	for _, c := range clients {
		_ = c.Close() // the gateway may have closed it first
	}
}

// parallel does n things, at most limit at a time, and counts failures by their text.
func parallel(n, limit int, do func(i int) error) answer {
	const maxKinds = 32 // of failures that are told apart
	var (
		mu   sync.Mutex
		next atomic.Int64
		wg   sync.WaitGroup
		a    answer
	)
	for range min(max(limit, 1), max(n, 1)) {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				err := do(i)
				mu.Lock()
				if err == nil {
					a.Done++
				} else {
					a.Failed++
					if a.Failures == nil {
						a.Failures = map[string]int{}
					}
					text := err.Error()
					if _, seen := a.Failures[text]; !seen && len(a.Failures) >= maxKinds {
						text = "other"
					}
					a.Failures[text]++
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return a
}
