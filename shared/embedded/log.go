package embedded

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
)

// recorder passes the server's warnings and errors to slog, and keeps the latest error for the
// caller of Start.
type recorder struct {
	log   *slog.Logger  // may be nil
	fatal chan struct{} // closed when the server says that it cannot go on
	once  sync.Once     // guards the close of fatal

	mu   sync.Mutex
	text string
}

func (r *recorder) last() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.text == "" {
		return "not ready in time"
	}
	return r.text
}

func (r *recorder) write(level slog.Level, format string, v []any) {
	text := fmt.Sprintf(format, v...)
	if level >= slog.LevelError {
		r.mu.Lock()
		r.text = text
		r.mu.Unlock()
	}
	if r.log != nil {
		r.log.Log(context.Background(), level, "nats server", "text", text)
	}
}

func (r *recorder) Noticef(string, ...any)         {}
func (r *recorder) Debugf(string, ...any)          {}
func (r *recorder) Tracef(string, ...any)          {}
func (r *recorder) Warnf(format string, v ...any)  { r.write(slog.LevelWarn, format, v) }
func (r *recorder) Errorf(format string, v ...any) { r.write(slog.LevelError, format, v) }
func (r *recorder) Fatalf(format string, v ...any) {
	r.write(slog.LevelError, format, v)
	r.once.Do(func() { close(r.fatal) })
}
