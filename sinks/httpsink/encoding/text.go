package encoding

import (
	"errors"
	"strconv"
	"strings"
	"unicode"

	"github.com/docket-export/docket/decision/rawjson"
	"github.com/docket-export/docket/sinks"
)

// appendID appends the id of item i of b.
func appendID(dst []byte, b *sinks.Batch, i int) []byte {
	dst = append(dst, b.Queue...)
	dst = append(dst, '-')
	return strconv.AppendUint(dst, b.Items[i].Seq, 10)
}

// appendMember appends ,"name":"value". The name needs no escapes.
func appendMember(dst []byte, name, value string) []byte {
	dst = append(dst, ',', '"')
	dst = append(dst, name...)
	dst = append(dst, '"', ':')
	return rawjson.AppendString(dst, value)
}

// appendOptional is appendMember of a value that is not empty.
func appendOptional(dst []byte, name, value string) []byte {
	if value == "" {
		return dst
	}
	return appendMember(dst, name, value)
}

// plainText is the check of an option that goes into every request.
func plainText(s string) error {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return errors.New("must not hold control characters")
	}
	return nil
}
