package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

const workerExit = 15 * time.Second // a worker that has not ended by then is killed

// fleet is the coordinator's side of its workers.
type fleet struct {
	workers []*link
}

// link is one worker process and its pipes.
type link struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Scanner
}

// startFleet starts n workers: this binary with the given arguments.
func startFleet(ctx context.Context, n int, args ...string) (*fleet, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	f := &fleet{}
	for range n {
		cmd := exec.CommandContext(ctx, self, args...)
		cmd.Stderr = os.Stderr
		in, err := cmd.StdinPipe()
		if err != nil {
			return f, err
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			return f, err
		}
		if err := cmd.Start(); err != nil {
			return f, fmt.Errorf("bench: start a worker: %w", err)
		}
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, maxLine)
		f.workers = append(f.workers, &link{cmd: cmd, in: in, out: lines})
	}
	return f, nil
}

// ask sends each worker its command and merges the answers.
func (f *fleet) ask(of func(worker int) command) (answer, *hdrhistogram.Histogram, error) {
	answers := make([]answer, len(f.workers))
	errs := make([]error, len(f.workers))
	var wg sync.WaitGroup
	for i, l := range f.workers {
		wg.Go(func() { answers[i], errs[i] = l.ask(of(i)) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return answer{}, nil, err
	}
	total, h := answer{Failures: map[string]int{}}, newHistogram()
	for _, a := range answers {
		total.Done += a.Done
		total.Failed += a.Failed
		total.Received += a.Received
		total.Closed += a.Closed
		for text, n := range maps.All(a.Failures) {
			total.Failures[text] += n
		}
		if len(a.Latency.Counts) > 0 {
			h.Merge(hdrhistogram.Import(&a.Latency))
		}
	}
	return total, h, nil
}

func (l *link) ask(cmd command) (answer, error) {
	line, err := json.Marshal(cmd)
	if err != nil {
		return answer{}, err
	}
	if _, err := l.in.Write(append(line, '\n')); err != nil {
		return answer{}, fmt.Errorf("bench worker: %w", err)
	}
	if !l.out.Scan() {
		return answer{}, fmt.Errorf("bench worker ended: %w", errors.Join(l.out.Err(), io.ErrUnexpectedEOF))
	}
	var a answer
	if err := json.Unmarshal(l.out.Bytes(), &a); err != nil {
		return answer{}, fmt.Errorf("bench worker: %w", err)
	}
	if a.Error != "" {
		return a, errors.New("bench worker: " + a.Error)
	}
	return a, nil
}

// stop ends the workers: closing their input asks, killing follows.
func (f *fleet) stop() {
	for _, l := range f.workers {
		_ = l.in.Close() // a dead worker's pipe is closed already
	}
	for _, l := range f.workers {
		kill := time.AfterFunc(workerExit, func() { _ = l.cmd.Process.Kill() })
		_ = l.cmd.Wait() // how a worker ends does not matter any more
		kill.Stop()
	}
}
