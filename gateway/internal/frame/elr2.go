package frame

func decodeELR2(msg []byte, strict bool) (Frame, error) { return Frame{}, ErrNotFrame }

func appendELR2(dst []byte, f Frame) []byte { return dst }
