package frame

import (
	"encoding/binary"
	"strconv"
	"unicode/utf8"
)

// Prepared is a push encoded once for all sessions of one codec. A session's own message is
// AppendHead followed by Tail.
type Prepared struct {
	head  []byte // up to the sequence number
	tail  []byte // after it (ELR2: after the header)
	codec Codec
}

// Prepare encodes a push. The payload follows the rules of Frame.Payload, and is copied. A payload
// that is not UTF-8 travels as bytes whatever the sender says: one bad sender must not have the
// connections of its receivers fail.
func Prepare(c Codec, route uint32, payload []byte, base64, ack bool) *Prepared {
	p := &Prepared{codec: c}
	if c == ELR2 {
		p.cut(append(appendHeader(make([]byte, 0, HeaderBytes+len(payload)), Frame{Kind: KindPush, Route: route}, len(payload)), payload...), HeaderBytes)
		return p
	}
	base64 = base64 || !utf8.Valid(payload)
	size := len(payload)
	if base64 {
		size += size/3 + 4
	}
	const around = 96 // bytes besides the payload
	head := append(appendHead(make([]byte, 0, size+around), KindPush, route), `,"seq":`...)
	p.cut(appendTail(head, payload, base64, ack), len(head))
	return p
}

// cut takes both parts from one piece of memory.
func (p *Prepared) cut(message []byte, at int) {
	p.head, p.tail = message[:at:at], message[at:]
}

// Codec is the written form.
func (p *Prepared) Codec() Codec { return p.codec }

// AppendHead appends what comes before the shared tail, with the session's sequence number.
func (p *Prepared) AppendHead(dst []byte, seq uint32) []byte {
	at := len(dst)
	dst = append(dst, p.head...)
	if p.codec == ELR2 {
		binary.BigEndian.PutUint32(dst[at+20:], seq)
		return dst
	}
	return strconv.AppendUint(dst, uint64(seq), 10)
}

// Tail is the shared rest of the message. It must not be modified.
func (p *Prepared) Tail() []byte { return p.tail }

// Size is the length of the whole message for that sequence number, in bytes.
func (p *Prepared) Size(seq uint32) int {
	n := len(p.head) + len(p.tail)
	if p.codec == ELR2 {
		return n
	}
	n++
	for ; seq >= 10; seq /= 10 {
		n++
	}
	return n
}
