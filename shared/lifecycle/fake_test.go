package lifecycle

import (
	"context"
	"errors"
	"sync"
)

// fake is a Service that writes down what is done with it.
type fake struct {
	Machine
	node     Node
	journal  *journal
	startErr error
	slow     bool // Drain lasts until its context ends
}

// journal is shared by the fakes of one test.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) add(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
}

func (j *journal) read() []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return append([]string(nil), j.lines...)
}

func newFake(j *journal, service, id string) *fake {
	return &fake{node: NewNode(service, id), journal: j}
}

func (f *fake) Node() Node { return f.node }

func (f *fake) Start(context.Context) error {
	f.journal.add("start " + f.node.ID)
	if f.startErr != nil {
		return f.startErr
	}
	_, err := f.Move(Ready)
	return err
}

func (f *fake) Check() error { return f.CheckReady() }

func (f *fake) Drain(ctx context.Context) error {
	if _, err := f.Move(Draining); err != nil {
		return err
	}
	f.journal.add("drain " + f.node.ID)
	if f.slow {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (f *fake) Undrain(context.Context) error {
	f.journal.add("undrain " + f.node.ID)
	_, err := f.Move(Ready)
	return err
}

func (f *fake) Stop(context.Context) error {
	f.journal.add("stop " + f.node.ID)
	_, err := f.Move(Stopped)
	return err
}

var errBroken = errors.New("broken")
