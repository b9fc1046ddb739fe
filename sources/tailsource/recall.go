package tailsource

import (
	"errors"
	"io"
	"io/fs"
	"slices"

	"github.com/docket-export/docket/sources/tailsource/follow"
	"github.com/docket-export/docket/sources/tailsource/formats"
)

// recallCarry reads again, once, what had come of the lines in pieces of which the state
// says only where they begin. It is false if one of them is gone: the numbers of the lines
// behind it are not what they were.
func (r *reader) recallCarry() (same bool) {
	if r.recalled {
		return true
	}
	r.recalled = true
	lost := r.decoder.Recall(r.readAgain)
	for range lost {
		r.report.Gap(follow.Lost{Lines: 1}, "a line that was cut into pieces is lost: its beginning is in a log file that is gone", "path", r.config.Path)
	}
	return lost == 0
}

// readAgain decodes what was read of the log from a line on. What it chooses was sent.
func (r *reader) readAgain(d *formats.Decoder, from formats.Origin) error {
	first := slices.IndexFunc(r.state.Files, func(c follow.Contents) bool { return c.Generation == from.Generation })
	if first < 0 {
		return fs.ErrNotExist
	}
	for _, c := range r.state.Files[first:] {
		from.Generation = c.Generation
		if err := decodeAgain(d, c, from); err != nil {
			return err
		}
		from.Offset = 0
	}
	return nil
}

func decodeAgain(d *formats.Decoder, c follow.Contents, at formats.Origin) error {
	file, err := c.Open()
	if err != nil {
		return err
	}
	defer file.Close()
	d.Begin(true)
	buf := make([]byte, readBytes)
	for data := io.NewSectionReader(file, at.Offset, c.Offset-at.Offset); ; {
		n, err := data.Read(buf)
		d.Decode(at, buf[:n])
		d.Batch.Clear()
		at.Offset += int64(n)
		if errors.Is(err, io.EOF) {
			d.End(false) // what is behind the last newline, of a file that was read to its end
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// renumber makes what was not read of the contents the lines of another producer. What was
// sent of that and is not in the state is stored again: better than to take a line for one
// that has had its number.
func (r *reading) renumber() {
	state := *r.state
	state.Carry = r.decoder.Carry()
	if r.known != nil {
		state.Files = state.Without(r.known.Generation)
		own := *r.known
		own.Generation, own.Producer, own.Number = 0, "", 0
		r.known = &own
	}
	r.state, r.unsaved = &state, true
}
