package sources

import "bytes"

// mark is the byte order mark of UTF-8, which some programs write before the first line.
var mark = []byte("\xef\xbb\xbf")

// WithoutMark returns text without a byte order mark before it. RFC 8259 lets a reader of JSON
// skip one.
func WithoutMark(text []byte) []byte {
	if len(text) > 0 && text[0] == mark[0] {
		return bytes.TrimPrefix(text, mark)
	}
	return text
}
