package encoding

import "github.com/docket-export/docket/sinks"

// jsonArray is one JSON array of the records.
//
// https://www.rfc-editor.org/rfc/rfc8259#section-5
type jsonArray struct{ traits }

func newJSONArray() *jsonArray {
	return &jsonArray{traits{contentType: "application/json", acceptance: acceptsPlain}}
}

// Append implements Encoding.
func (*jsonArray) Append(dst []byte, b sinks.Batch) ([]byte, error) {
	if len(b.Items) == 0 {
		return dst, nil
	}
	for i := range b.Items {
		dst = append(dst, separator(i))
		dst = append(dst, b.Items[i].Record...)
	}
	return append(dst, ']'), nil
}

// separator is what stands before element i of an array.
func separator(i int) byte {
	if i == 0 {
		return '['
	}
	return ','
}
