package encoding

import (
	"cmp"
	"net/http"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sinks"
)

// BulkOp is what a bulk request does with each record.
type BulkOp string

// The operations of a bulk request.
const (
	BulkCreate BulkOp = "create" // adds a document, unless one has its id already
	BulkIndex  BulkOp = "index"  // adds a document, or replaces the one that has its id
)

// ElasticsearchBulk has the options of the encoding elasticsearchBulk.
type ElasticsearchBulk struct {
	// Index is the index, alias or data stream that takes the records. {yyyy}, {MM},
	// {dd} and {HH} stand for parts of the time, in UTC, at which docket received the
	// record: decisions-{yyyy.MM.dd}. Without it the URL names one: /decisions/_bulk.
	Index string `yaml:"index"`
	// Op is create, the default, or index. A data stream takes create alone.
	Op BulkOp `yaml:"op"`
}

func (c *ElasticsearchBulk) validate() config.Problems {
	var p config.Problems
	if c.Index != "" {
		_, err := parseIndexName(c.Index)
		p.Check("index", err)
	}
	if c.Op != "" {
		p.Check("op", config.Choice(c.Op, BulkCreate, BulkIndex))
	}
	return p
}

// elasticsearchBulk is the bulk API of Elasticsearch and OpenSearch: for each
// record a line that says where it goes, and the record as the next line.
//
//	{"create":{"_index":"decisions-2026.01.05","_id":"<id>"}}
//	<record>
//
// The _id makes a redelivery harmless: with create it is answered 409, which is as
// good as accepted, and with index it replaces the document by itself. Both hold
// within one index. Behind an alias or data stream that has rolled over in
// between, a redelivery leaves a second document with the same _id.
//
// Documents of a data stream must have a field @timestamp, and docket does not
// change records: where they have none, let an ingest pipeline set it.
//
// https://www.elastic.co/docs/api/doc/elasticsearch/operation/operation-bulk
// https://docs.opensearch.org/latest/api-reference/document-apis/bulk/
type elasticsearchBulk struct {
	op    BulkOp
	open  []byte // an action up to the name of the index or, without one, the id
	index *indexName
}

// maxBulkAnswer is room for the complaint of each of 2,500 records, as answers
// are with filterPath.
const maxBulkAnswer = 1 << 20

// filterPath asks for what Judge needs of an answer: some 30 bytes an item in
// place of 250.
const filterPath = "errors,items.*.status,items.*.error.type,items.*.error.reason,items.*.error.caused_by.reason"

func newElasticsearchBulk(to *Encoding, c ElasticsearchBulk) (err error) {
	e := &elasticsearchBulk{op: cmp.Or(c.Op, BulkCreate)}
	to.ContentType, to.FilterPath, to.MaxAnswer, to.Acceptance, to.AnswerDecides = "application/x-ndjson", filterPath, maxBulkAnswer, acceptsOK, true
	to.Append, to.Judge, to.Status = e.append, e.judge, e.status
	e.open = append(e.open, `{"`+string(e.op)+`":{"`...)
	if c.Index == "" {
		e.open = append(e.open, `_id":"`...)
		return nil
	}
	e.open = append(e.open, `_index":"`...)
	e.index, err = parseIndexName(c.Index)
	return err
}

// append refuses records that nest too deeply.
func (e *elasticsearchBulk) append(dst []byte, b sinks.Batch) ([]byte, error) {
	if err := checkDepth(&b); err != nil {
		return dst, err
	}
	for i := range b.Items {
		it := &b.Items[i]
		dst = append(dst, e.open...)
		if e.index != nil {
			dst = e.index.append(dst, it.Received)
			dst = append(dst, `","_id":"`...)
		}
		dst = appendID(dst, &b, i)
		dst = append(dst, `"}}`+"\n"...)
		dst = append(dst, it.Record...)
		dst = append(dst, '\n')
	}
	return dst, nil
}

// status knows that a bulk request is read as far as its action lines
// before it is answered, so that a 400 for the whole of it is never about a record.
func (e *elasticsearchBulk) status(status int, _ []byte) (kind sinks.Kind, hint string, ok bool) {
	if status != http.StatusBadRequest {
		return 0, "", false
	}
	if e.index == nil {
		return sinks.Misconfigured, "set elasticsearchBulk.index, and end http.url in /_bulk", true
	}
	return sinks.Misconfigured, "end http.url in /_bulk, and check its query", true
}
