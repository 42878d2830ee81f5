package ledger

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard-io/switchyard/shared/subject"
)

// Bucket describes the ledger's bucket, of at most maxBytes. Once it is full no ticket can be used up
// until others have expired: JetStream refuses the write, it does not forget a used ticket (I5).
// History 1: no older record reappears when the newest expires. Markers are kept shortly: an
// expired ticket is refused by its own exp.
func Bucket(replicas int, maxBytes int64) jetstream.KeyValueConfig {
	return jetstream.KeyValueConfig{
		Bucket:         subject.BucketTickets,
		Description:    "tickets that are used up",
		History:        1,
		Storage:        jetstream.FileStorage,
		MaxBytes:       maxBytes,
		Replicas:       replicas,
		LimitMarkerTTL: time.Second,
	}
}

// JetStream is the Store in a JetStream bucket. It goes below the KV interface for two reasons:
// a KV update drops a key's TTL, and a KV get may be answered by a follower that is behind.
type JetStream struct {
	nc *nats.Conn
	js jetstream.JetStream
}

// NewJetStream uses the bucket that Bucket describes, which must exist.
func NewJetStream(nc *nats.Conn, js jetstream.JetStream) *JetStream { return &JetStream{nc, js} }

// Write implements Store.
func (s *JetStream) Write(ctx context.Context, key string, value []byte, rev uint64, ttl time.Duration) error {
	_, err := s.js.Publish(ctx, subject.KVSubject(subject.BucketTickets, key), value,
		jetstream.WithExpectLastSequencePerSubject(rev),
		jetstream.WithMsgTTL((ttl + time.Second - 1).Truncate(time.Second)), // whole seconds count
		jetstream.WithRetryAttempts(0))
	var api *jetstream.APIError
	if errors.As(err, &api) {
		switch api.ErrorCode {
		case jetstream.JSErrCodeStreamWrongLastSequence, jetstream.JSErrCodeStreamWrongLastSequenceConstant:
			return ErrConflict
		}
	}
	return err
}

// Read implements Store with STREAM.MSG.GET, which only the stream's leader answers.
func (s *JetStream) Read(ctx context.Context, key string) ([]byte, uint64, error) {
	ask, err := json.Marshal(map[string]string{"last_by_subj": subject.KVSubject(subject.BucketTickets, key)})
	if err != nil {
		return nil, 0, err
	}
	m, err := s.nc.RequestWithContext(ctx, subject.StreamMessageGet(subject.KVStream(subject.BucketTickets)), ask)
	if err != nil {
		return nil, 0, err
	}
	var reply struct {
		Error   *jetstream.APIError `json:"error"`
		Message *struct {
			Sequence uint64 `json:"seq"`
			Header   []byte `json:"hdrs"`
			Data     []byte `json:"data"`
		} `json:"message"`
	}
	if err := json.Unmarshal(m.Data, &reply); err != nil {
		return nil, 0, fmt.Errorf("ledger: stream reply: %w", err)
	}
	switch {
	case reply.Error != nil && reply.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return nil, 0, nil
	case reply.Error != nil:
		return nil, 0, reply.Error
	case reply.Message == nil:
		return nil, 0, errors.New("ledger: empty stream reply")
	}
	return reply.Message.Data, reply.Message.Sequence, nil // a marker has no data
}
