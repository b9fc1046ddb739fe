package main

import (
	"path/filepath"
	"testing"

	"github.com/docket-export/docket/internal/repo"
)

func TestPagesHaveTheKeys(t *testing.T) {
	root, err := repo.Root()
	if err != nil {
		t.Fatal(err)
	}
	docs := filepath.Join(root, "docs")
	pages, err := stale(docs)
	if err != nil {
		t.Fatal(err)
	}
	for page := range pages {
		t.Errorf("%s has other keys than docs/keys.md: run go generate ./docs", page)
	}
}

const keys = "# Keys\n\n## Every sink\n\n| key | default | meaning |\n|---|---|---|\n" +
	"| `sinks[].name` | required | the name |\n| `sinks[].batch.maxBytes` | by kind | see [memory](memory.md) |\n\n" +
	"| `http` | 500 | 1Mi | 1s |\n\n" +
	"## Sink http\n\n| `sinks[].http.url` | required | see [there](sinks/http.md#there), [here](#here) and [RFC](https://x.org) |\n" +
	"| `sinks[].http.tls.keyFile` | - | the key |\n\n## Sink stdout\n\nNo keys.\n"

func TestWrite(t *testing.T) {
	const head = "| key | default | meaning |\n|---|---|---|\n"
	for _, test := range []struct{ name, path, want string }{
		{"sinks/http.md", "sinks[]", head + "| `sinks[].name` | required | the name |\n| `sinks[].batch.maxBytes` | `1Mi` | see [memory](../memory.md) |\n"},
		{"queue.md", "sinks[].batch", head + "| `sinks[].batch.maxBytes` | by kind | see [memory](memory.md) |\n"},
		{"sinks/http.md", "sinks[].http", head + "| `sinks[].http.url` | required | see [there](#there), [here](../keys.md#here) and [RFC](https://x.org) |\n" +
			"| `sinks[].http.tls.keyFile` | - | the key |\n"},
		{"sinks/http.md", "sinks[].http.tls", head + "| `sinks[].http.tls.keyFile` | - | the key |\n"},
		{"sinks/stdout.md", "sinks[].stdout", "This section has no keys.\n"},
	} {
		page := "before\n<!-- keys: " + test.path + " -->\nold\n<!-- end of keys -->\nafter\n"
		want := "before\n<!-- keys: " + test.path + " -->\n" + test.want + "<!-- end of keys -->\nafter\n"
		got, err := write(keys, test.name, page)
		if err != nil || string(got) != want {
			t.Errorf("%s in %s: got %q, %v, want %q", test.path, test.name, got, err, want)
		}
	}
	for _, page := range []string{"<!-- keys: sinks[].htt -->\n<!-- end of keys -->", "<!-- keys: sinks[] -->\n"} {
		if got, err := write(keys, "page.md", page); err == nil {
			t.Errorf("got %q of %q, want an error", got, page)
		}
	}
}
