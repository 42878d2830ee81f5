package services

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/switchyard-io/switchyard/services/operator"
	"github.com/switchyard-io/switchyard/shared/lifecycle"
)

const (
	lockFile   = "lock"
	natsFolder = "nats"
	tokenBytes = 32 // random bytes of a made admin token
)

// ErrDataDir is wrapped when the data folder cannot be used.
var ErrDataDir = errors.New("data folder")

// dataDir is the folder of one all-in-one process, locked against a second one.
type dataDir struct {
	path string
	lock *os.File
}

func openDataDir(path string) (*dataDir, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDataDir, err)
	}
	f, err := os.OpenFile(filepath.Join(path, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDataDir, err)
	}
	if err := lock(f); err != nil {
		_ = f.Close() // the lock's error is the one to tell
		return nil, fmt.Errorf("%w: %s is in use by another process", ErrDataDir, path)
	}
	return &dataDir{path: path, lock: f}, nil
}

// close gives the lock back.
func (d *dataDir) close() error { return d.lock.Close() }

func (d *dataDir) nats() string { return filepath.Join(d.path, natsFolder) }

// adminToken is the configured token, or the one in the folder, which is made at the first start.
func (d *dataDir) adminToken(configured string) (string, error) {
	if configured != "" {
		return configured, nil
	}
	path := filepath.Join(d.path, operator.TokenFile)
	b, err := os.ReadFile(path)
	if err == nil {
		token := strings.TrimSpace(string(b))
		if len(token) < lifecycle.MinTokenBytes {
			return "", fmt.Errorf("%w: %s holds no token of %d bytes or more", ErrDataDir, path, lifecycle.MinTokenBytes)
		}
		return token, nil
	}
	if !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("%w: %w", ErrDataDir, err)
	}
	raw := make([]byte, tokenBytes)
	if _, err := rand.Read(raw); err != nil {
		return "", err
	}
	token := base64.RawURLEncoding.EncodeToString(raw)
	// Written beside and renamed: a crash never leaves half a token.
	if err := os.WriteFile(path+".new", []byte(token+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("%w: %w", ErrDataDir, err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return "", fmt.Errorf("%w: %w", ErrDataDir, err)
	}
	return token, nil
}
