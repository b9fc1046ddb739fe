package decision

// Size returns how much memory r holds, for callers who bound that of many readers.
func (r *ReviewReader) Size() int { return cap(r.came) + cap(r.buf) }
