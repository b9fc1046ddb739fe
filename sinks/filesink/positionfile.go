package filesink

import (
	"bytes"
	"errors"
	"hash/crc32"
	"io/fs"
	"math"

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

func readPosition(path disk.Path) (found, error) {
	data, err := path.Read(math.MaxInt64)
	f := found{exists: !errors.Is(err, fs.ErrNotExist)}
	if f.exists && err != nil {
		return found{}, err
	}
	if err := checkVersions(path.Dir().String(), data); err != nil || !f.exists {
		return found{}, err
	}
	for offset := 0; offset < gapLogStart; offset += slotDistance {
		p, ok := decodeSlot(data[min(offset, len(data)):])
		var gaps manifest.Gaps
		if ok {
			gaps, ok = acceptedGaps(p, data[min(gapLogStart, len(data)):])
		}
		if !ok {
			f.doubtful = true
		} else if !f.sound || p.generation > f.position.generation {
			f.position, f.gaps, f.sound = p, gaps, true
		}
	}
	return f, nil
}

// acceptedGaps reads what p names of a gap log.
func acceptedGaps(p position, log []byte) (gaps manifest.Gaps, ok bool) {
	if p.gaps < 0 || p.gaps > int64(len(log)) || checksum(log[:p.gaps]) != p.gapSum {
		return manifest.Gaps{}, false
	}
	gaps, err := decodeGaps(log[:p.gaps])
	return gaps, err == nil
}

// savePosition makes p the durable position, together with gaps, which come
// behind those that it has.
func (s *store) savePosition(p position, gaps []sinks.Gap) error {
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
	content := make([]byte, gapLogStart, gapLogStart+len(log))
	for range 2 {
		p.generation++
		p.encode(content[p.offset():p.offset()])
	}
	f, err := s.replace(positionName, bytes.NewReader(append(content, log...)))
	if err != nil {
		return err
	}
	if s.positions != nil {
		err = s.positions.Close()
	}
	s.positions, s.position, s.gaps = f, p, gaps
	return err
}
