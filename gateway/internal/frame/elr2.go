package frame

import (
	"encoding/binary"
	"fmt"

	"github.com/switchyard-io/switchyard/shared/fault"
)

// The ELR2 header. All numbers are big-endian.
const (
	HeaderBytes = 28
	elr2Magic   = 0x454C5232
	elr2Version = 2
)

// Errors of frames that are well formed but wrong, in either form.
var (
	errNoRoute   = fault.New(fault.InvalidRequest, "route must be an integer from 1 to 4294967295")
	errNoID      = fault.New(fault.InvalidRequest, "id must be an integer from 1 to 9007199254740991")
	errNoELR2ID  = fault.New(fault.InvalidRequest, "id must be an integer from 1 to 18446744073709551615")
	errPushID    = fault.New(fault.InvalidRequest, "a push has no id")
	errSystemSeq = fault.New(fault.InvalidRequest, "seq must be 0 on routes below 100")
)

// StreamSize tells how long the ELR2 frame is that head begins with, for stream transports: head
// has at least HeaderBytes bytes. A header that is none is ErrNotFrame; sizes are not judged.
func StreamSize(head []byte) (int, error) {
	if err := checkHeader(head); err != nil {
		return 0, err
	}
	return HeaderBytes + int(binary.BigEndian.Uint32(head[24:])), nil
}

func checkHeader(h []byte) error {
	switch {
	case len(h) < HeaderBytes:
		return fmt.Errorf("%w: short header", ErrNotFrame)
	case binary.BigEndian.Uint32(h) != elr2Magic:
		return fmt.Errorf("%w: magic", ErrNotFrame)
	case binary.BigEndian.Uint16(h[4:]) != elr2Version:
		return fmt.Errorf("%w: version", ErrNotFrame)
	case h[6] < byte(KindRequest) || h[6] > byte(KindError):
		return fmt.Errorf("%w: kind", ErrNotFrame)
	case h[7] != 0:
		return fmt.Errorf("%w: flags", ErrNotFrame)
	}
	return nil
}

func decodeELR2(msg []byte, strict bool) (Frame, error) {
	size, err := StreamSize(msg)
	if err != nil {
		return Frame{}, err
	}
	if size != len(msg) {
		return Frame{}, fmt.Errorf("%w: length", ErrNotFrame)
	}
	f := Frame{
		Kind:  Kind(msg[6]),
		Route: binary.BigEndian.Uint32(msg[8:]),
		ID:    binary.BigEndian.Uint64(msg[12:]),
		Seq:   binary.BigEndian.Uint32(msg[20:]),
	}
	if size > HeaderBytes {
		f.Payload = msg[HeaderBytes:]
	}
	if e := f.check(strict, errNoELR2ID); e != nil {
		return f, e
	}
	return f, nil
}

// check holds the rules that both forms share; noID is what a missing id is answered with. An
// error frame may lack an id: it answers a request that had none.
func (f Frame) check(strict bool, noID *fault.Error) *fault.Error {
	switch {
	case f.Route == 0 && strict:
		return errNoRoute
	case f.Kind == KindPush && f.ID != 0:
		return errPushID
	case f.Kind != KindPush && f.ID == 0 && strict:
		return noID
	case f.Kind == KindRequest && f.Route < FirstApplication && f.Seq != 0:
		return errSystemSeq
	}
	return nil
}

func appendELR2(dst []byte, f Frame) []byte {
	return append(appendHeader(dst, f, len(f.Payload)), f.Payload...)
}

func appendHeader(dst []byte, f Frame, payload int) []byte {
	dst = binary.BigEndian.AppendUint32(dst, elr2Magic)
	dst = binary.BigEndian.AppendUint16(dst, elr2Version)
	dst = append(dst, byte(f.Kind), 0)
	dst = binary.BigEndian.AppendUint32(dst, f.Route)
	dst = binary.BigEndian.AppendUint64(dst, f.ID)
	dst = binary.BigEndian.AppendUint32(dst, f.Seq)
	return binary.BigEndian.AppendUint32(dst, uint32(payload))
}
