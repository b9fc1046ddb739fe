package main

import (
	"fmt"
	"strings"
)

const (
	// recordBytes is the length of every record with its newline.
	recordBytes = 1 << 10
	// idDigits is how many digits make a record unlike every other.
	idDigits = 12
	// blockRecords is how many records differ in more than their id. A producer
	// goes through them again and again, so that it costs the machine little.
	blockRecords = 1 << 10
)

// block is a series of records, each a line of recordBytes, in the form in which
// Gatekeeper reports a denied request.
type block struct {
	lines []byte
	ids   []int // offset of the id of each line
}

const recordFormat = `{"id":"7f3c1d9a-0b42-4c55-9e1b-%[1]s","details":{"missing_labels":["owner","team"],"container":"%[2]s-%[3]d","allowed":["registry.example.test/","mirror.example.test/"]},` +
	`"eventType":"violation_admission","group":"constraints.gatekeeper.sh","version":"v1beta1","kind":"K8sRequiredLabels","name":"%[2]s-must-have-owner",` +
	`"message":"you must provide labels: {\"owner\", \"team\"}%[4]s","enforcementAction":"deny","constraintAnnotations":{"policy.example.test/id":"POL-%04[3]d","policy.example.test/severity":"high"},` +
	`"resourceAPIVersion":"v1","resourceKind":"Pod","resourceNamespace":"%[2]s","resourceName":"%[2]s-5d9c7b6f4-%[3]d","resourceLabels":{"app":"%[2]s","tier":"backend"},` +
	`"timestamp":"2026-11-21T08:07:16.213267926Z","operation":"CREATE","requestResource":"pods","requestUsername":"system:serviceaccount:kube-system:replicaset-controller",` +
	`"requestUserGroups":["system:serviceaccounts","system:authenticated"],"dryRun":false}`

// newBlock makes the block of one producer.
func newBlock(producer int) *block {
	namespaces := []string{"shop", "payments", "search", "inventory", "ml-training", "ingress"}
	b := &block{}
	for i := range blockRecords {
		n := producer*blockRecords + i
		line := func(filler string) string {
			return fmt.Sprintf(recordFormat, strings.Repeat("0", idDigits), namespaces[n%len(namespaces)], n, filler)
		}
		text := line(strings.Repeat(".", recordBytes-1-len(line(""))))
		b.ids = append(b.ids, len(b.lines)+strings.Index(text, strings.Repeat("0", idDigits)))
		b.lines = append(b.lines, text...)
		b.lines = append(b.lines, '\n')
	}
	return b
}

// next returns the n lines from number first on, fewer where the block ends, with
// their ids written in. They are valid until the next call.
func (b *block) next(first uint64, n int) []byte {
	from := int(first % blockRecords)
	n = min(n, blockRecords-from)
	for i := range n {
		id := first + uint64(i)
		for at := b.ids[from+i] + idDigits - 1; id > 0; at, id = at-1, id/10 {
			b.lines[at] = byte('0' + id%10)
		}
	}
	return b.lines[from*recordBytes : (from+n)*recordBytes]
}
