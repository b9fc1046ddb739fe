package encoding

import (
	"fmt"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sinks"
)

// Encoding is one way to write a batch as a request body and to read the answer
// to it. It holds no state: its functions may be called at the same time.
type Encoding struct {
	ContentType   string     // the media type of the body
	FilterPath    string     // the query parameter filter_path, unless the URL has one; empty: none
	TokenScheme   string     // the word before a token in the Authorization header
	MaxAnswer     int        // how many bytes of an answer Judge and Status want to see
	Acceptance    Acceptance // how an answer begins that may say that the batch was taken
	AnswerDecides bool       // the body of a 2xx answer may refuse records: they are accepted once Judge has seen all of it

	// Append appends b to dst and returns the extended buffer. Record bytes are
	// copied unchanged, or encoded so that they decode unchanged. A batch without
	// items appends nothing. An error is a *sinks.Failure that names records which
	// the destination must not get.
	Append func(dst []byte, b sinks.Batch) ([]byte, error)

	// Judge reads the answer to b: one that Acceptance allows, where AnswerDecides, or one with a
	// status that Status calls Rejected. Nil means that it
	// refuses no item. Otherwise Judge returns a *sinks.Failure of any kind, with Items and
	// Each if the answer names items. Whatever it repeats of the answer has passed quote, which
	// takes secrets out.
	Judge func(status int, body []byte, b sinks.Batch, quote Quote) error

	// Status says what a status other than 2xx means in this protocol, and in hint
	// what to do about it. ok is false when the protocol does not define the
	// status.
	Status func(status int, body []byte) (kind sinks.Kind, hint string, ok bool)
}

// Quote makes one printable, bounded line of a text.
type Quote func(text string) string

// maxProse is as much as it takes to quote an answer that only a person reads.
const maxProse = 64 << 10

// The names of the encodings.
const (
	ndjsonName            = "ndjson"
	jsonArrayName         = "jsonArray"
	cloudEventsName       = "cloudEvents"
	otlpName              = "otlp"
	splunkHECName         = "splunkHEC"
	elasticsearchBulkName = "elasticsearchBulk"
	lokiName              = "loki"
)

// Names lists the encodings, the default first.
var Names = []string{ndjsonName, jsonArrayName, cloudEventsName, otlpName, splunkHECName, elasticsearchBulkName, lokiName}

// Config holds the options of the encodings that have any, each below a key that
// is the encoding's name. A section that is nil, and an option that is zero, has
// its default.
type Config struct {
	// Encoding is how a batch becomes a request body, one of Names.
	Encoding          string             `yaml:"encoding"`
	CloudEvents       *CloudEvents       `yaml:"cloudEvents"`
	OTLP              *OTLP              `yaml:"otlp"`
	SplunkHEC         *SplunkHEC         `yaml:"splunkHEC"`
	ElasticsearchBulk *ElasticsearchBulk `yaml:"elasticsearchBulk"`
	Loki              *Loki              `yaml:"loki"`
}

// Validate reports an unknown encoding, options of another one and invalid options. Paths are
// relative to the section that c is part of.
func (c *Config) Validate() config.Problems {
	var p config.Problems
	p.Check("encoding", config.Choice(c.Encoding, Names...))
	section := func(name string, given bool, validate func() config.Problems) {
		if given && c.Encoding != name {
			p.Addf(name, "has no effect without encoding: %s: set it, or remove this section", name)
		} else if given {
			p = append(p, validate().In(name)...)
		}
	}
	section(cloudEventsName, c.CloudEvents != nil, c.CloudEvents.validate)
	section(otlpName, c.OTLP != nil, c.OTLP.validate)
	section(splunkHECName, c.SplunkHEC != nil, c.SplunkHEC.validate)
	section(elasticsearchBulkName, c.ElasticsearchBulk != nil, c.ElasticsearchBulk.validate)
	section(lokiName, c.Loki != nil, c.Loki.validate)
	return p
}

// New returns the named encoding. c must have been validated for it.
func New(encoding string, c Config) (Encoding, error) {
	e := Encoding{
		TokenScheme: "Bearer",
		MaxAnswer:   maxProse,
		Acceptance:  acceptsPlain,
		Judge:       func(int, []byte, sinks.Batch, Quote) error { return nil },
		Status:      func(int, []byte) (sinks.Kind, string, bool) { return 0, "", false },
	}
	var err error
	switch encoding {
	case ndjsonName:
		e.ContentType, e.Append = "application/x-ndjson", appendLines
	case jsonArrayName:
		e.ContentType, e.Append = "application/json", appendArray
	case cloudEventsName:
		newCloudEvents(&e, orDefault(c.CloudEvents))
	case otlpName:
		newOTLP(&e, orDefault(c.OTLP))
	case splunkHECName:
		newSplunkHEC(&e, orDefault(c.SplunkHEC))
	case elasticsearchBulkName:
		err = newElasticsearchBulk(&e, orDefault(c.ElasticsearchBulk))
	case lokiName:
		newLoki(&e, orDefault(c.Loki))
	default:
		err = fmt.Errorf("encoding %q is not known", encoding)
	}
	return e, err
}

// orDefault is what section points to, or the zero value, which is the defaults.
func orDefault[T any](section *T) T {
	if section == nil {
		var none T
		return none
	}
	return *section
}
