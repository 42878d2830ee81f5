package lifecycle

import (
	"errors"
	"fmt"
	"sync"
)

// The states, in the words of beacons and of sy.v1.nodes.
const (
	Starting = "starting"
	Ready    = "ready"
	Draining = "draining"
	Stopped  = "stopped"
)

// ErrTransition says that a state cannot follow the present one.
var ErrTransition = errors.New("no such transition")

// next lists what may follow a state.
var next = map[string][]string{
	Starting: {Ready, Draining, Stopped},
	Ready:    {Draining, Stopped},
	Draining: {Ready, Stopped},
	Stopped:  nil,
}

// Machine is the state of a service, for embedding. The zero value is Starting.
type Machine struct {
	mu     sync.Mutex
	state  string // "" is Starting
	failed chan error
}

// State is starting, ready, draining or stopped.
func (m *Machine) State() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.stateLocked()
}

func (m *Machine) stateLocked() string {
	if m.state == "" {
		return Starting
	}
	return m.state
}

// Move goes to a state. changed is false when it was there already; an error wraps ErrTransition
// and leaves the state as it was.
func (m *Machine) Move(to string) (changed bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	from := m.stateLocked()
	if from == to {
		return false, nil
	}
	for _, s := range next[from] {
		if s == to {
			m.state = to
			return true, nil
		}
	}
	return false, fmt.Errorf("%w: %s -> %s", ErrTransition, from, to)
}

// CheckReady is nil in Ready, else an error that names the state: the first line of a Check.
func (m *Machine) CheckReady() error {
	if s := m.State(); s != Ready {
		return errors.New(s)
	}
	return nil
}

// Fail reports an error that ends the service. Only the first is kept.
func (m *Machine) Fail(err error) {
	select {
	case m.failures() <- err:
	default:
	}
}

// Failed delivers what Fail was given first.
func (m *Machine) Failed() <-chan error { return m.failures() }

func (m *Machine) failures() chan error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.failed == nil {
		m.failed = make(chan error, 1)
	}
	return m.failed
}
