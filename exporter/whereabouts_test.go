package exporter

import "testing"

// Where docket is can be read from files that Load does not take, and a token goes nowhere
// but to this machine.
func TestWhereabouts(t *testing.T) {
	const admin = "127.0.0.1:9464"
	for name, test := range map[string]struct{ file, directory, address string }{
		"good":               {"queue: {directory: /q}\nadmin: {address: '127.0.0.1:9000'}\n", "/q", "127.0.0.1:9000"},
		"no queue":           {"sinks: []\n", "", admin},
		"nothing":            {"", "", admin},
		"mistakes elsewhere": {"queue: {directory: /q, maxBytes: lots}\nsink: [{}]\nadmin: [1]\n", "/q", admin},
		"mistakes beside":    {"sinks: [{name: 7, nosuch: {}}]\nqueue: {directory: /q, maxBytes: many}\nadmin: {address: 127.0.0.1:1, nosuch: 1}\n", "/q", "127.0.0.1:1"},
		"foreign address":    {"queue: {directory: /q}\nadmin: {address: 'example.com:80'}\n", "/q", ""},
		// From here on it is no YAML.
		"block":           {"queue:\n  # where it is\n  maxBytes: 1Gi\n\n  directory: /q # here\nadmin:\n  address: \"[::1]:9000\"\n\tsinks:\n", "/q", "[::1]:9000"},
		"flow":            {"sinks: [\nqueue: {maxBytes: 1Gi, directory: /q}\nadmin: { address: 127.0.0.1:9000 }\n", "/q", "127.0.0.1:9000"},
		"quoted":          {"a: b: c\nqueue: {directory: '/a b, c'}\n", "/a b, c", admin},
		"double quoted":   {"a: b: c\nqueue:\n  directory: \"/a b # c\"\n", "/a b # c", admin},
		"Windows' lines":  {"a: b: c\r\nqueue:\r\n  directory: /q\r\nadmin:\r\n  address: 127.0.0.1:9000\r\n", "/q", "127.0.0.1:9000"},
		"of another part": {"a: b: c\nqueue:\n  maxBytes: 1Gi\nsinks:\n- file:\n    directory: /export\n", "", admin},
		"before its part": {"a: b: c\nsinks:\n- file: {directory: /export}\nqueue:\n  directory: /q\n", "/q", admin},
		"in a comment":    {"a: b: c\n# queue: {directory: /old}\nqueue:\n# directory: /older\n  directory: /q\n", "/q", admin},
		"a longer key":    {"a: b: c\nqueue: {xdirectory: /x, directory: /q}\n", "/q", admin},
		"the broken line": {"queue: {directory: /q\nsinks:\n- name: x\n", "/q", admin},
		"indented":        {"a: 1\n  queue:\n    directory: /q\n  sinks:\n    directory: /x\n admin: {address: 127.0.0.1:9000}\n", "/q", "127.0.0.1:9000"},
		"indented, none":  {"a: 1\n  queue:\n    maxBytes: 1Gi\n  sinks:\n    directory: /x\n", "", admin},
		"no value":        {"a: b: c\nqueue:\n  directory:\n  maxBytes: 1Gi\n", "", admin},
	} {
		t.Run(name, func(t *testing.T) {
			directory, at, ok := Whereabouts([]byte(test.file))
			if directory != test.directory || at.Address != test.address || ok != (test.directory != "") {
				t.Errorf("got %q, %q, %t, want %q and %q", directory, at.Address, ok, test.directory, test.address)
			}
		})
	}
}
