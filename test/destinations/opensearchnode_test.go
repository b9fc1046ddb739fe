package destinations

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/docket-export/docket/test/internal/artifact"
	"github.com/docket-export/docket/test/internal/freeport"
	"github.com/docket-export/docket/test/internal/server"
)

// openSearchVersion is the release that opensearch.pom.xml asks for.
const openSearchVersion = "2.19.3"

var (
	//go:embed testdata/opensearch.pom.xml
	openSearchPOM []byte
	//go:embed testdata/OpenSearch.java
	openSearchJava []byte
	//go:embed testdata/opensearch.log4j2.properties
	openSearchLog []byte
)

// openSearch is a node of OpenSearch, made from the jars of its library: there is
// no package of it that needs no download by hand.
type openSearch struct{ httpServer }

// startOpenSearch starts a node without indexes.
func startOpenSearch(t *testing.T) *openSearch {
	t.Helper()
	files := map[string][]byte{"pom.xml": openSearchPOM, "OpenSearch.java": openSearchJava, "log4j2.properties": openSearchLog}
	dir := artifact.Artifact{
		Name:    "opensearch-" + openSearchVersion,
		What:    "OpenSearch " + openSearchVersion,
		Runs:    []string{"java default-jre-headless"},
		Tools:   []string{"javac default-jdk-headless", "mvn maven"},
		Recipe:  slices.Concat(openSearchPOM, openSearchJava, openSearchLog),
		Seconds: 40,
		Make: func(ctx context.Context, dir string) error {
			for name, text := range files {
				if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
					return err
				}
			}
			err := artifact.Run(ctx, dir, "mvn", "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime", "-DoutputDirectory="+dir)
			if err != nil {
				return err
			}
			return artifact.Run(ctx, dir, "javac", "-cp", "*", "OpenSearch.java")
		},
	}.Dir(t)

	addresses, err := freeport.Loopback(2)
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(addresses[0])
	_, transport, _ := net.SplitHostPort(addresses[1])
	s := &openSearch{httpServer{address: addresses[0], Server: server.Server{
		Name:    "OpenSearch",
		Program: "java",
		// The simplest collector and the first compiler alone: a node of a test lives
		// for seconds and shares its cores.
		Args: []string{
			"-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:+ExitOnOutOfMemoryError",
			"-Dlog4j2.configurationFile=" + filepath.Join(dir, "log4j2.properties"),
			"-cp", dir + ":" + filepath.Join(dir, "*"), "OpenSearch", t.TempDir(), port, transport,
		},
	}}}
	s.Ready = func() error {
		_, err := s.ask(http.MethodGet, "/_cluster/health?wait_for_status=green&timeout=1s", "", nil)
		return err
	}
	s.Start(t)
	return s
}

// plainIndex are the settings of an index on one node, which maps the given fields
// alone and keeps the others as they are.
func plainIndex(properties string) string {
	return fmt.Sprintf(`{"settings":{"number_of_shards":1,"number_of_replicas":0},"mappings":{"dynamic":false,"properties":{%s}}}`, properties)
}

// createIndex makes an index with plainIndex.
func (s *openSearch) createIndex(t *testing.T, name, properties string) {
	t.Helper()
	s.asks(t, http.MethodPut, "/"+name, plainIndex(properties), nil)
}

// conflicts is how often an index was asked to create a document that it had, since
// the node has started.
func (s *openSearch) conflicts(t *testing.T, index string) int {
	t.Helper()
	var answer struct {
		All struct {
			Total struct {
				Indexing struct {
					Failed int `json:"index_failed"`
				} `json:"indexing"`
			} `json:"total"`
		} `json:"_all"`
	}
	s.asks(t, http.MethodGet, "/"+index+"/_stats/indexing", "", &answer)
	return answer.All.Total.Indexing.Failed
}

// readAll returns every document of an index. Their number has been compared with
// what the index counts.
func (s *openSearch) readAll(t *testing.T, index string) []arrival {
	t.Helper()
	s.asks(t, http.MethodPost, "/"+index+"/_refresh", "", nil)
	var count struct{ Count int }
	s.asks(t, http.MethodGet, "/"+index+"/_count", "", &count)

	type hit struct {
		ID     string          `json:"_id"`
		Source json.RawMessage `json:"_source"`
	}
	type page struct {
		ScrollID string `json:"_scroll_id"`
		Hits     struct{ Hits []hit }
	}
	var all []arrival
	var p page
	s.asks(t, http.MethodPost, "/"+index+"/_search?scroll=1m", `{"size":5000,"sort":["_doc"]}`, &p)
	for len(p.Hits.Hits) > 0 {
		for _, h := range p.Hits.Hits {
			all = append(all, arrival{id: h.ID, record: string(h.Source)})
		}
		id := p.ScrollID
		p = page{}
		s.asks(t, http.MethodPost, "/_search/scroll", fmt.Sprintf(`{"scroll":"1m","scroll_id":%q}`, id), &p)
	}
	if len(all) != count.Count {
		t.Errorf("OpenSearch counts %d documents in %s and has %d", count.Count, index, len(all))
	}
	return all
}
