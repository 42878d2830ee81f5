package leadership

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/switchyard-io/switchyard/shared/subject"
)

var (
	// errConflict says that a compare-and-set found another revision.
	errConflict = errors.New("revision changed")
	// errUnavailable says that the bucket's leader could not be reached, or that it is not known
	// whether a write was done.
	errUnavailable = errors.New("bucket unavailable")
)

// JetStream's codes for a wrong last sequence: the second one by a replicated stream.
const (
	codeWrongSequence           = 10071
	codeWrongSequenceReplicated = 10164
)

// bucket is compare-and-set access to one KV bucket. It speaks the JetStream API itself for
// three things that the client's KV does not do: reads through the stream's leader (a KV Get may be
// answered by a replica that is behind), writes that keep a TTL, and no retries of its own.
type bucket struct {
	nc   *nats.Conn
	name string
}

// value is one key as stored.
type value struct {
	data []byte
	seq  uint64 // of the newest message of the key, a marker included
	live bool   // false: deleted, expired or never there
}

type apiError struct {
	Code    int    `json:"code"`
	ErrCode int    `json:"err_code"`
	Desc    string `json:"description"`
}

// get reads a key through the stream's leader.
func (b bucket) get(ctx context.Context, key string) (value, error) {
	body, _ := json.Marshal(map[string]string{"last_by_subj": subject.KVSubject(b.name, key)})
	m, err := b.nc.RequestWithContext(ctx, subject.StreamMessageGet(subject.KVStream(b.name)), body)
	if err != nil {
		return value{}, fmt.Errorf("%w: %w", errUnavailable, err)
	}
	var r struct {
		Error   *apiError `json:"error"`
		Message struct {
			Seq  uint64 `json:"seq"`
			Data []byte `json:"data"`
			Hdrs string `json:"hdrs"`
		} `json:"message"`
	}
	if err := json.Unmarshal(m.Data, &r); err != nil {
		return value{}, fmt.Errorf("%w: %w", errUnavailable, err)
	}
	if r.Error != nil {
		if r.Error.Code == http.StatusNotFound && r.Error.ErrCode == codeNoMessage {
			return value{}, nil
		}
		return value{}, fmt.Errorf("%w: %s", errUnavailable, r.Error.Desc)
	}
	hdr, err := base64.StdEncoding.DecodeString(r.Message.Hdrs)
	if err != nil {
		return value{}, fmt.Errorf("%w: %w", errUnavailable, err)
	}
	marker := strings.Contains(string(hdr), "KV-Operation:") || strings.Contains(string(hdr), subject.HeaderMarker+":")
	return value{data: r.Message.Data, seq: r.Message.Seq, live: !marker}, nil
}

// codeNoMessage is JetStream's "no message found".
const codeNoMessage = 10037

// put writes a key whose newest message has the sequence expected (0: the key has none). ttl 0 keeps
// it for ever. Errors: errConflict; errUnavailable, after which the write may still happen.
func (b bucket) put(ctx context.Context, key string, data []byte, expected uint64, ttl time.Duration) (uint64, error) {
	m := nats.NewMsg(subject.KVSubject(b.name, key))
	m.Data = data
	m.Header.Set(nats.ExpectedLastSubjSeqHdr, strconv.FormatUint(expected, 10))
	if ttl > 0 {
		m.Header.Set(subject.HeaderTTL, strconv.FormatInt(int64(ttl/time.Second), 10)+"s")
	}
	return b.send(ctx, m)
}

// purge removes a key, for good housekeeping: whether it succeeds does not matter.
func (b bucket) purge(ctx context.Context, key string) {
	m := nats.NewMsg(subject.KVSubject(b.name, key))
	m.Header.Set("KV-Operation", "PURGE")
	m.Header.Set(nats.MsgRollup, nats.MsgRollupSubject)
	m.Header.Set(subject.HeaderTTL, markerTTL)
	_, _ = b.send(ctx, m)
}

// markerTTL is how long the marker of a purged lease stays.
const markerTTL = "60s"

func (b bucket) send(ctx context.Context, m *nats.Msg) (uint64, error) {
	resp, err := b.nc.RequestMsgWithContext(ctx, m)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", errUnavailable, err)
	}
	var ack struct {
		Error *apiError `json:"error"`
		Seq   uint64    `json:"seq"`
	}
	if err := json.Unmarshal(resp.Data, &ack); err != nil {
		return 0, fmt.Errorf("%w: %w", errUnavailable, err)
	}
	if ack.Error == nil {
		return ack.Seq, nil
	}
	if c := ack.Error.ErrCode; c == codeWrongSequence || c == codeWrongSequenceReplicated {
		return 0, errConflict
	}
	return 0, fmt.Errorf("%w: %s", errUnavailable, ack.Error.Desc)
}

// listed is one key of a listing.
type listed struct {
	key  string
	data []byte
	seq  uint64
}

// list reads all live keys, at most limit, from whichever replica answers: it may be behind.
func (b bucket) list(ctx context.Context, limit int) ([]listed, error) {
	inbox := b.nc.NewInbox()
	msgs := make(chan *nats.Msg, limit+2)
	sub, err := b.nc.ChanSubscribe(inbox, msgs)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnavailable, err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	prefix := subject.KVSubject(b.name, "")
	body, _ := json.Marshal(map[string]any{"multi_last": []string{prefix + ">"}, "batch": limit})
	if err := b.nc.PublishRequest(subject.StreamDirectGet(subject.KVStream(b.name)), inbox, body); err != nil {
		return nil, fmt.Errorf("%w: %w", errUnavailable, err)
	}
	var out []listed
	for {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", errUnavailable, ctx.Err())
		case m := <-msgs:
			switch status := m.Header.Get("Status"); status {
			case "":
			case "204", "404": // end of the batch; an empty bucket
				return out, nil
			default:
				return nil, fmt.Errorf("%w: status %s", errUnavailable, status)
			}
			if m.Header.Get("KV-Operation") != "" || m.Header.Get(subject.HeaderMarker) != "" {
				continue
			}
			seq, _ := strconv.ParseUint(m.Header.Get(subject.HeaderSequence), 10, 64)
			out = append(out, listed{strings.TrimPrefix(m.Header.Get("Nats-Subject"), prefix), m.Data, seq})
		}
	}
}
