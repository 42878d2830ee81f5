package lab

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

const (
	stopTimeout = 45 * time.Second // SIGTERM to exit; a gateway drains for up to 30 s
	maxOutput   = 256 << 10        // bytes of a process's output that are kept, the latest
)

// Process is one operating system process of the suite.
type Process struct {
	Name string
	Env  []string
	Args []string

	t    testing.TB
	cmd  *exec.Cmd
	out  *tail
	done chan struct{} // closed when the process has ended
	err  error         // valid after done
}

// Start runs the binary name with only the given environment (and PATH, HOME). It ends with the test.
func Start(t testing.TB, name string, env []string, args ...string) *Process {
	t.Helper()
	p := &Process{Name: name, Env: env, Args: args, t: t}
	p.start()
	t.Cleanup(func() {
		p.end()
		if t.Failed() {
			t.Logf("output of %s %s:\n%s", p.Name, strings.Join(p.Env, " "), p.Output())
		}
	})
	return p
}

func (p *Process) start() {
	p.t.Helper()
	path, err := binaryPath(p.Name)
	if err != nil {
		p.t.Fatal(err)
	}
	p.out = &tail{}
	p.done = make(chan struct{})
	p.cmd = exec.Command(path, p.Args...)
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "GORACE=halt_on_error=1 exitcode=66"}, p.Env...)
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	if err := p.cmd.Start(); err != nil {
		p.t.Fatalf("start %s: %v", p.Name, err)
	}
	go func(cmd *exec.Cmd, done chan struct{}) {
		p.err = cmd.Wait()
		close(done)
	}(p.cmd, p.done)
}

// Restart starts the same process anew, after Kill or Stop.
func (p *Process) Restart() {
	p.t.Helper()
	<-p.done
	p.start()
}

// Signal sends a signal.
func (p *Process) Signal(s syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Errorf("signal %s: %v", p.Name, err)
	}
}

// Kill ends the process at once, as a crash does.
func (p *Process) Kill() {
	p.t.Helper()
	p.Signal(syscall.SIGKILL)
	<-p.done
}

// Stop sends SIGTERM and returns the exit code.
func (p *Process) Stop() int {
	p.t.Helper()
	p.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(stopTimeout):
		p.t.Errorf("%s did not stop within %s", p.Name, stopTimeout)
		p.Kill()
	}
	return p.cmd.ProcessState.ExitCode()
}

// Running tells whether the process is alive.
func (p *Process) Running() bool {
	select {
	case <-p.done:
		return false
	default:
		return true
	}
}

// Pid is the process id of this life.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Output is the latest of what the process wrote.
func (p *Process) Output() string { return p.out.String() }

func (p *Process) end() {
	_ = p.cmd.Process.Signal(syscall.SIGCONT) // a stopped one could not end
	_ = p.cmd.Process.Kill()
	<-p.done
	if strings.Contains(p.Output(), "WARNING: DATA RACE") {
		p.t.Errorf("%s has a data race:\n%s", p.Name, p.Output())
	}
}

// WaitOutput waits until the output holds text and returns the line that does.
func (p *Process) WaitOutput(text string, limit time.Duration) string {
	p.t.Helper()
	var line string
	Eventually(p.t, limit, func() error {
		for l := range strings.Lines(p.Output()) {
			if strings.Contains(l, text) {
				line = strings.TrimSpace(l)
				return nil
			}
		}
		if !p.Running() {
			p.t.Fatalf("%s ended (%v):\n%s", p.Name, p.err, p.Output())
		}
		return fmt.Errorf("%s has not printed %q", p.Name, text)
	})
	return line
}

// Eventually calls check every 20 ms until it returns nil, and fails the test with its last error
// after the limit.
func Eventually(t testing.TB, limit time.Duration, check func() error) {
	t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-deadline.C:
			t.Fatalf("not within %s: %v", limit, err)
		case <-tick.C:
		}
	}
}

// tail keeps the latest maxOutput bytes that were written.
type tail struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (w *tail) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.buf.Write(p)
	if over := w.buf.Len() - maxOutput; over > 0 {
		w.buf.Next(over)
	}
	return len(p), nil
}

func (w *tail) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.buf.String()
}
