package httpsink

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/httpsink/encoding"
)

// headers are names and values of headers.
type headers map[string]string

// String returns only the names. Values must not leave the configuration: a
// secret may not look like one.
func (h headers) String() string {
	return strings.Join(slices.Sorted(maps.Keys(h)), ", ")
}

// headerFiles are names of headers and the files of their values.
type headerFiles map[string]config.SecretFile

// String is the names alone.
func (h headerFiles) String() string {
	return strings.Join(slices.Sorted(maps.Keys(h)), ", ")
}

// ownHeaders are set by docket or by the protocol itself, as are those that
// begin with one of ownPrefixes.
var (
	ownHeaders = []string{
		"Accept-Encoding", "Connection", "Content-Encoding", "Content-Length", "Content-Type", "Expect", "Host",
		"Idempotency-Key", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "User-Agent",
	}
	ownPrefixes = []string{"Docket-", "Webhook-"}
)

// credentialHeaders hold credentials by their definition, so their values come from files.
var credentialHeaders = []string{"Authorization", "Cookie", "Proxy-Authorization"}

// validateHeaders checks names and values; it repeats names only.
func (c *Config) validateHeaders(p *config.Problems) {
	names := map[string]bool{} // in their canonical form
	check := func(section, name string) bool {
		path, canonical := section+"."+name, textproto.CanonicalMIMEHeaderKey(name)
		switch {
		case !isHeaderName(name):
			p.Addf(path, "is not a header name: use letters, digits and hyphens")
			return false
		case isOwnHeader(canonical):
			p.Addf(path, "is set by docket itself: remove it")
			return false
		case names[canonical]:
			p.Addf(path, "is set twice: header names ignore case, in headers and headerFiles together")
			return false
		}
		names[canonical] = true
		return true
	}
	for _, name := range slices.Sorted(maps.Keys(c.Headers)) {
		switch {
		case !check("headers", name):
		case slices.Contains(credentialHeaders, textproto.CanonicalMIMEHeaderKey(name)):
			p.Addf("headers."+name, "is for credentials: write its value into a file and name the file in headerFiles")
		case !isHeaderValue(c.Headers[name]):
			p.Addf("headers."+name, "must be printable ASCII text without spaces around it")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.HeaderFiles)) {
		if !check("headerFiles", name) {
			continue
		}
		if c.HeaderFiles[name] == "" {
			p.Addf("headerFiles."+name, "must name a file")
		} else if kinds := c.authKinds(); len(kinds) > 1 && kinds[1] == "headerFiles."+name {
			p.Addf(kinds[1], "must not be set beside %s: a request has one Authorization header", kinds[0])
		}
	}
}

// isHeaderName reports whether name is a token as of RFC 9110.
func isHeaderName(name string) bool {
	const symbols = "!#$%&'*+-.^_`|~"
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && !strings.ContainsRune(symbols, r)
	})
}

func isHeaderValue(value string) bool {
	return strings.TrimSpace(value) == value && !strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' })
}

func isOwnHeader(canonical string) bool {
	return slices.Contains(ownHeaders, canonical) ||
		slices.ContainsFunc(ownPrefixes, func(p string) bool { return strings.HasPrefix(canonical, p) })
}

// readHeaderFiles sets the headers of the files in h and returns their values.
func (c *Config) readHeaderFiles(h http.Header) (secrets []string, err error) {
	for name, file := range c.HeaderFiles {
		value, err := file.Read()
		if err != nil {
			return nil, sinks.Failf(sinks.Misconfigured, "http.headerFiles.%s: %w", name, err)
		}
		if !isHeaderValue(value) {
			return nil, sinks.Failf(sinks.Misconfigured, "http.headerFiles.%s: secret file %s: must be ASCII text", name, file)
		}
		h.Set(name, value)
		secrets = append(secrets, value)
		// Of "Splunk 0123" a receiver quotes the second word.
		if _, token, found := strings.Cut(value, " "); found {
			secrets = append(secrets, token)
		}
	}
	return secrets, nil
}

// fixedHeader is what every request of a sink has in common.
func fixedHeader(c *Config, e encoding.Encoding) http.Header {
	h := http.Header{}
	for name, value := range c.Headers {
		h.Set(name, value)
	}
	h.Set("Content-Type", e.ContentType)
	h.Set("User-Agent", "docket")
	if c.Compression != compressNone {
		h.Set("Content-Encoding", c.Compression)
	}
	if e.AnswerDecides {
		h.Set("Accept-Encoding", "gzip") // it may be as long as the batch
	}
	return h
}

// batchHeader is the header of the request for b, but for what shows who we are.
func (s *sink) batchHeader(b sinks.Batch) http.Header {
	h := maps.Clone(s.fixed)
	h["Docket-Queue"] = []string{b.Queue}
	h["Docket-First-Seq"] = []string{strconv.FormatUint(b.Items[0].Seq, 10)}
	h["Docket-Last-Seq"] = []string{strconv.FormatUint(b.Items[len(b.Items)-1].Seq, 10)}
	h["Docket-Records"] = []string{strconv.Itoa(len(b.Items))}
	h["Idempotency-Key"] = []string{batchKey(b)}
	for i := range b.Items {
		if late := b.Items[i].Late; late != sinks.OnTime {
			h["Docket-Late"] = []string{string(late)}
			break
		}
	}
	return h
}

// batchKey names the records of b and how late they are: 32 hexadecimal digits of
// a SHA-256. The same records have the same key at every attempt and after a
// restart. First and last seq would not do: when one record has been set aside,
// others remain between the same two. Records that are replayed or redriven have
// another key than before, since a receiver that remembers keys would keep them
// out, or answer as it did when it refused them. When the same records are
// redriven once more, the key is that of their first redrive.
func batchKey(b sinks.Batch) string {
	key := []byte(b.Queue)
	for i := range b.Items {
		late := b.Items[i].Late
		key = binary.BigEndian.AppendUint64(key, b.Items[i].Seq)
		key = append(key, byte(len(late)))
		key = append(key, late...)
	}
	sum := sha256.Sum256(key)
	return hex.EncodeToString(sum[:16])
}
