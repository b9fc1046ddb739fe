package queue

import (
	"context"
	"testing/synctest"
	"time"
)

// read takes a batch, compares it and perhaps acks some of it.
func (m *crashModel) read(name string, most time.Duration) int {
	c := m.cursors[name]
	for _, r := range m.last[name] {
		for i := range r.Data {
			r.Data[i] = '#' // no longer ours
		}
	}
	m.last[name] = nil
	first := c.next
	ctx, cancel := context.WithTimeout(m.ctx, most)
	defer cancel()
	batch, err := c.Next(ctx, Limits{Records: 1 + m.dice.IntN(8), Bytes: 1 + m.dice.IntN(1<<m.dice.IntN(14))})
	if err != nil {
		return 0
	}
	m.mu.Lock()
	all := m.records()
	m.mu.Unlock()
	for i, r := range batch {
		if r.Seq != first+uint64(i) {
			m.fatalf("sink %s: got seq %d, want %d", name, r.Seq, first+uint64(i))
		}
		if r.Seq > uint64(len(all)) || string(r.Data) != all[r.Seq-1] {
			m.fatalf("sink %s: record %d is %.40q", name, r.Seq, r.Data)
		}
		if err := m.ids.give(&r); err != nil {
			m.fatalf("sink %s: %v", name, err)
		}
		m.reached[name] = max(m.reached[name], r.Seq)
	}
	m.durableUpTo(batch[len(batch)-1].Seq)
	if m.dice.IntN(3) > 0 {
		seq := batch[m.dice.IntN(len(batch))].Seq
		m.acks[name] = max(seq, m.acks[name])
		if err := c.Ack(seq); err != nil {
			m.fatalf("ack: %v", err)
		}
	}
	m.last[name] = batch
	return len(batch)
}

// durableUpTo notes that a sink has seen the record seq, which must stay.
func (m *crashModel) durableUpTo(seq uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var n uint64
	for i, c := range m.chunks {
		if n += uint64(len(c.records)); n >= seq {
			if m.acked < i+1 {
				// settled comes right after
				m.mu.Unlock()
				synctest.Wait()
				m.mu.Lock()
				if m.acked < i+1 {
					m.t.Errorf("record %d was shown before it was acknowledged", seq)
				}
			}
			return
		}
	}
}

// finish reads everything on a disk that works.
func (m *crashModel) finish() {
	if !m.start(-1) {
		return
	}
	m.disk.SetFaults(0, 0)
	if !m.learn() {
		m.fatalf("no position on a good disk")
	}
	m.openCursors()
	for _, name := range m.q.Stats().Parked {
		m.q.Forget(name)
	}
	for _, name := range []string{"a", "b"} {
		c := m.cursors[name]
		for c.next <= m.q.LastSeq() {
			if m.read(name, time.Second) == 0 {
				m.fatalf("sink %s: nothing at %d of %d", name, c.next, m.q.LastSeq())
			}
		}
		if last := m.q.LastSeq(); last > 0 {
			m.acks[name] = last
			must(m.t, c.Ack(last))
		}
	}
	time.Sleep(5 * time.Second)
	m.checkStats()
	if n := len(*m.q.segments.Load()); n > 1 {
		m.fatalf("segments kept at the end: got %d, want 1", n)
	}
	m.stop()
}
