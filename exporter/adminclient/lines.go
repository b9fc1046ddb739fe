package adminclient

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// maxLine bounds a line of an answer: the longest record that can be configured, and where
// it came from.
const maxLine = 17 << 20

// eachLine calls do with the lines of an answer, which are valid until it returns. An answer that breaks off is io.ErrUnexpectedEOF.
func (c *Client) eachLine(body io.Reader, do func(line []byte) error) error {
	lines := bufio.NewReaderSize(body, 64<<10)
	var line []byte
	for {
		part, err := lines.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull) && len(line) <= maxLine:
			continue
		case errors.Is(err, bufio.ErrBufferFull):
			return c.Unreadable(&MalformedError{fmt.Errorf("a line has more than %d bytes: it is not docket's admin endpoint", maxLine)})
		case errors.Is(err, io.EOF) && len(line) == 0:
			return nil
		case errors.Is(err, io.EOF):
			return c.Unreadable(io.ErrUnexpectedEOF)
		case err != nil:
			return c.Unreadable(err)
		}
		if err := do(line[:len(line)-1]); err != nil {
			return err
		}
		line = line[:0]
	}
}
