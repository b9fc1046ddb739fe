package formats

import (
	"bytes"
	"fmt"
)

// encodings are files that no format reads, by how they begin.
var encodings = []struct{ begins, advice string }{
	{"\xff\xfe", utf16}, {"\xfe\xff", utf16}, {"{\x00", utf16}, {"\x00{", utf16},
	{"\x1f\x8b", packed}, {"\x28\xb5\x2f\xfd", packed}, {"BZh", packed}, {"\xfd7zXZ", packed},
}

const (
	utf16  = "This is UTF-16: let the engine write UTF-8"
	packed = "The file is compressed, and docket reads no compressed files: name the file that the engine writes to, or unpack this one and use docket send"
)

func encoding(begins []byte) (advice string) {
	for _, known := range encodings {
		if bytes.HasPrefix(begins, []byte(known.begins)) {
			return known.advice
		}
	}
	return ""
}

// IsEncoded reports whether a file begins as one that is compressed or in UTF-16.
func IsEncoded(begins []byte) bool { return encoding(begins) != "" }

// Advice says what to do about a file of which nothing was recognised, by how it begins.
func Advice(begins []byte, format Format) string {
	if advice := encoding(begins); advice != "" {
		return advice
	}
	return fmt.Sprintf("Compare a line of the file with the format %s, and correct one of them. Before a JSON object docket knows the framing of container runtimes alone", format)
}
