// Package encoding has the request bodies of the http sink: how a batch is
// written for each protocol, and what an answer in it says about the items.
// Each encoding has a file of its own with the specification that it follows.
//
// All of them carry the id of a record, so that a redelivery can be recognised,
// except ndjson and jsonArray, which are the records and nothing else.
package encoding

import "github.com/docket-export/docket/sinks"

// appendLines is the encoding ndjson: each record, then a newline.
//
// https://github.com/ndjson/ndjson-spec
func appendLines(dst []byte, b sinks.Batch) ([]byte, error) {
	for i := range b.Items {
		dst = append(dst, b.Items[i].Record...)
		dst = append(dst, '\n')
	}
	return dst, nil
}

// appendArray is the encoding jsonArray: one array of the records.
//
// https://www.rfc-editor.org/rfc/rfc8259#section-5
func appendArray(dst []byte, b sinks.Batch) ([]byte, error) {
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
