package encoding

import (
	"mime"
	"slices"
)

// Acceptance is how a receiver says that it has taken a batch, before Judge has seen its body.
type Acceptance struct {
	Statuses []int
	Type     string // the media type of the body; empty: any but HTML
}

// What the receivers document as an acceptance, and nothing else is one. Judge reads the bodies.
//
//	encoding                      status             Content-Type            body
//	ndjson jsonArray cloudEvents  200, 201, 202, 204 any but HTML            any but HTML
//	otlp                          200                that of the request     ExportLogsServiceResponse
//	splunkHEC                     200                any but HTML            "text":"Success","code":0, or code 24 or 25
//	elasticsearchBulk             200                any but HTML            an item for each record
//	loki                          204                any but HTML            none
//
// Loki answers 200 while an operator blocks ingestion, if it is configured so.
//
// https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/http-webhook.md#22-delivery-response
// https://opentelemetry.io/docs/specs/otlp/#otlphttp-response
// https://docs.splunk.com/Documentation/Splunk/latest/Data/TroubleshootHTTPEventCollector
// https://www.elastic.co/docs/api/doc/elasticsearch/operation/operation-bulk
// https://grafana.com/docs/loki/latest/reference/loki-http-api/#ingest-logs
var (
	acceptsPlain = Acceptance{Statuses: []int{200, 201, 202, 204}}
	acceptsOK    = Acceptance{Statuses: []int{200}}
	acceptsLoki  = Acceptance{Statuses: []int{204}}
)

// Allows says whether an answer with this status and Content-Type, which is not HTML, may be one.
func (a Acceptance) Allows(status int, contentType string) bool {
	if !slices.Contains(a.Statuses, status) {
		return false
	}
	got, _, _ := mime.ParseMediaType(contentType) // empty when there is none
	return a.Type == "" || got == a.Type
}
