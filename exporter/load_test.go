package exporter_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/sinks"
	"github.com/docket-export/docket/sinks/filesink"
	"github.com/docket-export/docket/sinks/httpsink"
	"github.com/docket-export/docket/sinks/kafkasink"
	"github.com/docket-export/docket/sinks/stdoutsink"
	"github.com/docket-export/docket/sources"
	"github.com/docket-export/docket/sources/streamsource"
)

const configDir = "../testdata/config"

var realKinds = exporter.Kinds{
	Sources: sources.Registry{streamsource.UnixDefinition, streamsource.TCPDefinition},
	Sinks:   sinks.Registry{filesink.Definition, httpsink.Definition, kafkasink.Definition, stdoutsink.Definition},
}

// TestLoadBad compares every problem of each *.bad.yaml with its *.problems.
func TestLoadBad(t *testing.T) {
	for _, file := range glob(t, "*.bad.yaml") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			cfg, problems := exporter.Load(read(t, file), realKinds)
			if cfg != nil {
				t.Errorf("got a Config from a file with problems, want nil")
			}
			got := problems.Error() + "\n"
			want := string(read(t, strings.TrimSuffix(file, ".yaml")+".problems"))
			if got != want {
				t.Errorf("got problems\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// TestLoadGood also feeds the effective configuration back, which must change
// nothing.
func TestLoadGood(t *testing.T) {
	for _, file := range glob(t, "*.good.yaml") {
		t.Run(filepath.Base(file), func(t *testing.T) {
			cfg := mustLoad(t, read(t, file))
			text := yamlOf(t, cfg)
			again := mustLoad(t, text)
			if !reflect.DeepEqual(again, cfg) {
				t.Errorf("got another Config from its own YAML:\n%s\nwant\n%s", yamlOf(t, again), text)
			}
		})
	}
}

// TestLoadDefaults pins the defaults that docs/keys.md and the help texts promise.
func TestLoadDefaults(t *testing.T) {
	cfg := mustLoad(t, read(t, filepath.Join(configDir, "minimal.good.yaml")))

	queue := exporter.QueueConfig{Directory: "/var/lib/docket", MaxBytes: 2 << 30, WhenFull: exporter.Block, MinFreeBytes: exporter.Auto}
	if cfg.Queue != queue {
		t.Errorf("got queue %+v, want %+v", cfg.Queue, queue)
	}
	if got, want := cfg.Admin.Address, "127.0.0.1:9464"; got != want {
		t.Errorf("got admin.address %q, want %q", got, want)
	}
	if got, want := cfg.Shutdown.DrainTimeout, config.Duration(20*time.Second); got != want {
		t.Errorf("got shutdown.drainTimeout %s, want %s", got, want)
	}
	if got, want := cfg.Limits.MaxRecordBytes, config.Size(1<<20); got != want {
		t.Errorf("got limits.maxRecordBytes %s, want %s", got, want)
	}
	sink := cfg.Sinks[0]
	if got, want := sink.Batch, filesink.Definition.Batch; got != want {
		t.Errorf("got batch %+v, want that of the kind, %+v", got, want)
	}
	retry := exporter.RetryConfig{InitialBackoff: config.Duration(500 * time.Millisecond), MaxBackoff: config.Duration(time.Minute)}
	if sink.Retry != retry {
		t.Errorf("got retry %+v, want %+v", sink.Retry, retry)
	}
	if sink.From != exporter.Oldest || sink.Stamp {
		t.Errorf("got from %s, stamp %t, want Oldest, false", sink.From, sink.Stamp)
	}
}

// TestLoadKeepsBatchDefaults: what a batch section leaves out is the default of
// the sink's kind, not of all sinks.
func TestLoadKeepsBatchDefaults(t *testing.T) {
	text := strings.Replace(string(read(t, filepath.Join(configDir, "minimal.good.yaml"))),
		"- name: compliance\n", "- name: compliance\n  batch: {maxRecords: 7}\n", 1)
	want := filesink.Definition.Batch
	want.MaxRecords = 7
	if got := mustLoad(t, []byte(text)).Sinks[0].Batch; got != want {
		t.Errorf("got batch %+v, want %+v", got, want)
	}
}

func TestDefaultConfig(t *testing.T) {
	for name, dir := range map[string]string{
		"relative":  "./docket-data",
		"absolute":  "/srv/docket",
		"awkward":   `/tmp/a "b": #c\d 'e' ü` + "\t",
		"DATA path": "/DATA/DATA",
	} {
		t.Run(name, func(t *testing.T) {
			cfg, problems := exporter.DefaultConfig(dir, realKinds)
			if err := problems.Err(); err != nil {
				t.Fatalf("got problems %v, want none", err)
			}
			if got, want := cfg.Queue.Directory, filepath.Join(dir, "queue"); got != want {
				t.Errorf("got queue.directory %q, want %q", got, want)
			}
			file := cfg.Sinks[0].Config.(*filesink.Config)
			if got, want := file.Directory, filepath.Join(dir, "export"); got != want {
				t.Errorf("got export directory %q, want %q", got, want)
			}
			again := mustLoad(t, yamlOf(t, cfg))
			if !reflect.DeepEqual(again, cfg) {
				t.Errorf("got another Config from its own YAML:\n%s", yamlOf(t, again))
			}
		})
	}
}

func TestDefaultConfigOfUnusableDirectory(t *testing.T) {
	for name, dir := range map[string]string{
		"too long for a socket": "/" + strings.Repeat("x", 120),
		"not UTF-8":             "/tmp/\xff",
	} {
		t.Run(name, func(t *testing.T) {
			if cfg, problems := exporter.DefaultConfig(dir, realKinds); len(problems) == 0 || cfg != nil {
				t.Errorf("got %v and problems %v, want problems only", cfg, problems)
			}
		})
	}
}

func mustLoad(t *testing.T, text []byte) *exporter.Config {
	t.Helper()
	cfg, problems := exporter.Load(text, realKinds)
	if err := problems.Err(); err != nil {
		t.Fatalf("got problems\n%v\nwant none, in\n%s", err, text)
	}
	return cfg
}

func yamlOf(t *testing.T, cfg *exporter.Config) []byte {
	t.Helper()
	text, err := cfg.YAML()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// glob returns the files of testdata that match, at least one.
func glob(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(configDir, pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("got files %v, error %v, want some in %s", files, err, configDir)
	}
	return files
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
