package frame

func decodeJSON(msg []byte, strict bool) (Frame, error) { return Frame{}, ErrNotFrame }

func appendJSON(dst []byte, f Frame) []byte { return dst }
