package tailsource

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
)

// carriesText reports whether any line in pieces has a text.
func (r *reader) carriesText() bool {
	return slices.ContainsFunc(r.decoder.carry.Joined[:], func(j joined) bool { return len(j.Text) > 0 })
}

// recallCarry reads again, once, what had come of the lines in pieces of which the state
// says only where they begin. It is false if one of them is gone: the line is passed over,
// and the numbers of the lines behind it are not what they were.
func (r *reader) recallCarry() (same bool) {
	if r.recalled {
		return true
	}
	r.recalled, same = true, true
	for s := range streams {
		j := &r.decoder.carry.Joined[s]
		if !j.isElsewhere() {
			continue
		}
		if *j = r.readAgain(s, j.Begun); j.Lost {
			same = false
			r.report.gap("a line that was cut into pieces is lost: its beginning is in a log file that is gone", "path", r.config.Path)
		}
	}
	return same
}

// readAgain joins the line of a stream that began somewhere, as far as the state goes.
func (r *reader) readAgain(s stream, begun origin) joined {
	lost := joined{Lost: true}
	d := decoder{format: r.config.Format, limit: r.env.MaxRecordBytes, batch: &batch{}}
	first := slices.IndexFunc(r.state.Files, func(c contents) bool { return c.Generation == begun.Generation })
	if first < 0 {
		return lost
	}
	from := begun.Offset
	for _, c := range r.state.Files[first:] {
		if d.readAgain(c, from) != nil {
			return lost
		}
		from = 0
	}
	if j := d.carry.Joined[s]; j.Begun == begun && !j.empty() {
		return j
	}
	return lost
}

// readAgain decodes what was read of contents, from a line on. What it chooses was sent.
func (d *decoder) readAgain(c contents, from int64) error {
	file, err := c.find()
	if err != nil {
		return err
	}
	defer file.Close()
	lines := splitter{limit: d.limit + framing, at: from}
	decode := func(text []byte, length int64) {
		d.at = origin{c.Generation, lines.begun}
		d.line(text, length)
		d.batch.clear()
	}
	buf := make([]byte, readBytes)
	for data := io.NewSectionReader(file, from, c.Offset-from); ; {
		n, err := data.Read(buf)
		lines.split(buf[:n], decode)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	if rest, length := lines.rest(); len(rest) > 0 { // of a file that was read to its end
		decode(rest, length)
	}
	return nil
}

// find opens the file that holds contents, or a copy of it, whatever it is called now. It
// may be renamed between two looks.
func (c *contents) find() (*os.File, error) {
	var err error
	for range maxLooks {
		var files []file
		files, err = list(filepath.Dir(c.Real))
		for _, f := range files {
			if f.identity != c.identity && f.identity != c.Copied {
				continue
			}
			if g := c.openIn(f); g != nil {
				return g.file, nil
			}
		}
	}
	return nil, errors.Join(os.ErrNotExist, err)
}

// renumber makes what was not read of the contents the lines of another producer. What was
// sent of that and is not in the state is stored again: better than to take a line for one
// that has had its number.
func (r *reading) renumber() {
	state := *r.state
	state.Carry = r.decoder.toKeep()
	if r.known != nil {
		state.Files = slices.DeleteFunc(slices.Clone(state.Files), func(c contents) bool { return c.Generation == r.known.Generation })
		own := *r.known
		own.Generation, own.Producer, own.Number = 0, "", 0
		r.known = &own
	}
	r.state, r.unsaved = &state, true
}
