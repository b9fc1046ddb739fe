package config

import "testing"

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestChoice(t *testing.T) {
	tests := map[string]struct {
		value mode
		known []mode
		want  string
	}{
		"known":      {"Block", []mode{"Block", "Refuse"}, ""},
		"wrong case": {"block", []mode{"Block", "Refuse"}, `must be Block or Refuse, not "block"`},
		"missing":    {"", []mode{"Block", "Refuse", "Drop"}, "must be Block, Refuse or Drop"},
		"only one":   {"x", []mode{"Block"}, `must be Block, not "x"`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := errText(Choice(tt.value, tt.known...)); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestHostPort(t *testing.T) {
	const shape = "must be host:port such as 127.0.0.1:9464, with an IPv6 host in brackets"
	const port = "must end in a port, a number up to 65535"
	tests := map[string]string{
		"127.0.0.1:9464": "", "kafka-0:9092": "", ":7443": "", "[::1]:80": "", "[fe80::1%eth0]:80": "", "localhost:0": "",
		"": shape, "kafka-0": shape, "::1:80": shape, "http://x:80": shape, "a b:80": shape, "u@h:80": shape,
		"h:": port, "h:http": port, "h:65536": port, "h:-1": port, "h:+1": port,
	}
	for address, want := range tests {
		if got := errText(HostPort(address)); got != want {
			t.Errorf("HostPort(%q): got %q, want %q", address, got, want)
		}
	}
}
