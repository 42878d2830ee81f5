package bench

import (
	"errors"
	"fmt"
	"time"

	"github.com/switchyard-io/switchyard/shared/api"
)

// Bounds of a run.
const (
	MaxSessions = 1_000_000
	MaxRate     = 1_000_000 // pushes a second
	MaxDuration = time.Hour
	MaxWorkers  = 64
	MaxInFlight = 16_384
)

// Options of a run. The zero value of a field that a scenario does not use is right.
type Options struct {
	Gateways    []string      // WebSocket URLs; session i connects to gateway i modulo their number
	NATS        string        // NATS URL, for tickets and pushes
	Sessions    int           // sessions of the fleet, each of a user of its own
	Workers     int           // client processes
	Concurrency int           // logins at the same time, all workers together
	Rate        int           // pushes a second; 0: as many as go with InFlight requests open
	InFlight    int           // requests without a reply; more are due but wait, and count as late
	Duration    time.Duration // of the sending
	Settle      time.Duration // pause before memory is read
	Payload     int           // bytes of a push's payload
	Batch       int           // users named in one request, of the broadcast
	PIDs        []int         // processes whose memory and CPU are reported
}

// Validate reports the first option that is out of bounds.
func (o Options) Validate() error {
	switch {
	case len(o.Gateways) == 0:
		return errors.New("bench: no gateway")
	case o.Sessions < 1 || o.Sessions > MaxSessions:
		return fmt.Errorf("bench: sessions must be 1 to %d", MaxSessions)
	case o.Workers < 1 || o.Workers > MaxWorkers:
		return fmt.Errorf("bench: workers must be 1 to %d", MaxWorkers)
	case o.Concurrency < 1 || o.Concurrency > MaxInFlight:
		return fmt.Errorf("bench: concurrency must be 1 to %d", MaxInFlight)
	case o.Rate < 0 || o.Rate > MaxRate:
		return fmt.Errorf("bench: rate must be 0 to %d", MaxRate)
	case o.InFlight < 1 || o.InFlight > MaxInFlight:
		return fmt.Errorf("bench: in-flight must be 1 to %d", MaxInFlight)
	case o.Duration < 0 || o.Duration > MaxDuration:
		return fmt.Errorf("bench: duration must be 0 to %s", MaxDuration)
	case o.Payload < minPayload || o.Payload > 1<<20:
		return fmt.Errorf("bench: payload must be %d bytes to 1 MiB", minPayload)
	case o.Batch < 1 || o.Batch > api.MaxUsers:
		return fmt.Errorf("bench: batch must be 1 to %d users", api.MaxUsers)
	}
	return nil
}
