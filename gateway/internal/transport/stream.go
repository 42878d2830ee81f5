package transport

import "github.com/switchyard-io/switchyard/gateway/internal/frame"

// streamParser cuts a TCP stream in ELR2 frames.
type streamParser struct {
	conn *Conn
	size int    // of the frame under construction, 0: none
	msg  []byte // grows with what arrives
}

func (p *streamParser) idle() bool { return p.size == 0 }

func (p *streamParser) feed(chunk []byte) (used int, v *verdict) {
	active := false
	for used < len(chunk) && p.conn.open() {
		b := chunk[used:]
		if p.size == 0 {
			if len(b) < frame.HeaderBytes {
				return used, nil
			}
			size, err := frame.StreamSize(b)
			if err != nil {
				return used, violation(err)
			}
			if size > p.conn.listener.cfg.MaxMessageBytes {
				return used, tooBig
			}
			p.size = size
		}
		msg := b
		if n := p.size - len(p.msg); len(b) < n {
			p.msg = append(p.msg, b...)
			return len(chunk), nil
		} else if used += n; p.msg != nil {
			msg = append(p.msg, b[:n]...)
		} else {
			msg = b[:n]
		}
		p.size, p.msg = 0, nil
		if !active {
			active = true
			p.conn.events.Active(p.conn)
		}
		p.conn.listener.stats.messagesIn.Add(1)
		p.conn.events.Message(p.conn, msg)
	}
	if !p.conn.open() {
		used = len(chunk)
	}
	return used, nil
}
