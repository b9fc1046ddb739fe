package filesink

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"

	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// found is what there is of a position file.
type found struct {
	position position
	gaps     manifest.Gaps
	exists   bool
	sound    bool // position is the newest sound slot
	doubtful bool // the other slot is damaged, and may have been newer
}

// readPosition reads no more of the file than its slots and what they name of the gap log.
func readPosition(path disk.Path) (found, error) {
	file, err := path.OpenRead()
	if errors.Is(err, fs.ErrNotExist) {
		return found{}, checkVersions(path.Dir(), nil)
	}
	if err != nil {
		return found{}, err
	}
	defer file.Close()
	slots, err := io.ReadAll(io.NewSectionReader(file, 0, slotsEnd))
	if err != nil {
		return found{}, err
	}
	if err := checkVersions(path.Dir(), slots); err != nil {
		return found{}, err
	}
	f := found{exists: true}
	for offset := 0; offset < slotsEnd; offset += slotDistance {
		slot := slots[min(offset, len(slots)):]
		p, ok := decodeSlot(slot)
		logStart := int64(gapLogStart)
		var gaps manifest.Gaps
		switch {
		case ok && slotVersion(slot) == positionBefore:
			p.lineage, logStart = sinks.Lineage{{ID: p.queue.String(), First: 1}}, slotsEnd
		case ok:
			if p.lineage, ok, err = readLineage(file); err != nil {
				return found{}, err
			}
		}
		if ok {
			if gaps, ok, err = acceptedGaps(p, file, logStart); err != nil {
				return found{}, fmt.Errorf("%s: %w", path, err)
			}
		}
		if !ok {
			f.doubtful = true
		} else if !f.sound || p.generation > f.position.generation {
			f.position, f.gaps, f.sound = p, gaps, true
		}
	}
	return f, nil
}

// readLineage reads the lineage in file; ok is false where that is damaged.
func readLineage(file disk.File) (l sinks.Lineage, ok bool, err error) {
	b, err := io.ReadAll(io.NewSectionReader(file, slotsEnd, slotDistance))
	if err != nil {
		return nil, false, err
	}
	l, ok = decodeLineage(b)
	return l, ok, nil
}

// acceptedGaps reads what p names of the gap log in file. ok is false where that is damaged.
func acceptedGaps(p position, file disk.File, start int64) (gaps manifest.Gaps, ok bool, err error) {
	if p.gaps > mostGapLog {
		return manifest.Gaps{}, false, sinks.Failf(sinks.Misconfigured,
			"it names %d bytes of gaps, and docket never writes more than %d: restore the file, "+
				"or, to continue without it, move it to another directory", p.gaps, int64(mostGapLog))
	}
	log, err := io.ReadAll(io.NewSectionReader(file, start, max(0, p.gaps)))
	if err != nil {
		return manifest.Gaps{}, false, err
	}
	if int64(len(log)) != p.gaps || checksum(log) != p.gapSum {
		return manifest.Gaps{}, false, nil
	}
	gaps, err = decodeGaps(log)
	return gaps, err == nil, nil
}

// savePosition makes p the durable position, together with gaps, which come
// behind those that it has.
func (s *store) savePosition(p position, gaps []sinks.Gap) error {
	if p.gaps+int64(len(gaps)*gapSize) > max(fullGapLog, 2*gapSize*int64(s.gaps.Len())) {
		return s.compactPosition(p, gaps)
	}
	p.generation = s.position.generation + 1
	err := s.appendGapLog(&p, gaps)
	if err == nil {
		err = s.writeSlot(p)
	}
	if err != nil {
		s.broken = true
		return err
	}
	s.position = p
	return nil
}

// compactPosition is savePosition with a new file, whose gap log has one gap for all those
// that touch.
func (s *store) compactPosition(p position, gaps []sinks.Gap) error {
	for _, g := range gaps {
		if err := s.gaps.Add(g.From, g.To, g.Reason); err != nil {
			s.broken = true
			return err
		}
	}
	return s.replacePosition(p, s.gaps)
}

func (s *store) writeSlot(p position) error {
	if _, err := s.positions.WriteAt(p.encode(make([]byte, 0, positionSlot)), p.offset()); err != nil {
		return err
	}
	return s.positions.Sync()
}

// appendGapLog makes gaps durable and has p name them.
func (s *store) appendGapLog(p *position, gaps []sinks.Gap) (err error) {
	if len(gaps) == 0 {
		return nil
	}
	log := make([]byte, 0, len(gaps)*gapSize)
	for _, g := range gaps {
		if err := s.gaps.Add(g.From, g.To, g.Reason); err != nil {
			return err
		}
		if log, err = appendGap(log, g); err != nil {
			return err
		}
	}
	if _, err := s.positions.WriteAt(log, gapLogStart+p.gaps); err != nil {
		return err
	}
	p.gaps += int64(len(log))
	p.gapSum = crc32.Update(p.gapSum, castagnoli, log)
	return s.positions.Sync()
}

// replacePosition writes p and gaps to a new file, which takes the place of the
// old: where the gap log begins anew, where no slot may be left that says
// otherwise, and where the file there is may not be durable.
func (s *store) replacePosition(p position, gaps manifest.Gaps) (err error) {
	defer func() {
		if err != nil {
			s.broken = true
		}
	}()
	log, err := encodeGaps(gaps)
	if err != nil {
		return err
	}
	p.gaps, p.gapSum = int64(len(log)), checksum(log)
	p.generation = s.position.generation
	content := make([]byte, slotsEnd, gapLogStart+len(log))
	for range 2 {
		p.generation++
		p.encode(content[p.offset():p.offset()])
	}
	content = append(append(content, encodeLineage(p.lineage)...), log...)
	f, err := s.replace(positionName, bytes.NewReader(content))
	if err != nil {
		return err
	}
	if s.positions != nil {
		err = s.positions.Close()
	}
	s.positions, s.position, s.gaps = f, p, gaps
	return err
}
