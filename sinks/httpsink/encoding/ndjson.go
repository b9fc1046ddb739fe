package encoding

import "github.com/docket-export/docket/sinks"

// ndjson is newline-delimited JSON: each record, then a newline.
//
// https://github.com/ndjson/ndjson-spec
type ndjson struct{ traits }

func newNDJSON() *ndjson {
	return &ndjson{traits{contentType: "application/x-ndjson", acceptance: acceptsPlain}}
}

// Append implements Encoding.
func (*ndjson) Append(dst []byte, b sinks.Batch) ([]byte, error) {
	for i := range b.Items {
		dst = append(dst, b.Items[i].Record...)
		dst = append(dst, '\n')
	}
	return dst, nil
}
