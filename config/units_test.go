package config

import (
	"strings"
	"testing"
	"time"
)

func TestSize(t *testing.T) {
	tests := []struct {
		text    string
		size    Size
		written string
	}{
		{"0", 0, "0"},
		{"1500", 1500, "1500"},
		{"1000", 1000, "1k"},
		{"1024", 1024, "1Ki"},
		{"1025", 1025, "1025"},
		{"64Mi", 64 << 20, "64Mi"},
		{"2Gi", 2 << 30, "2Gi"},
		{"3Ti", 3 << 40, "3Ti"},
		{"1025Ki", 1025 << 10, "1025Ki"},
		{"5k", 5000, "5k"},
		{"10112k", 10112000, "9875Ki"},
		{"1M", 1e6, "1M"},
		{"1G", 1e9, "1G"},
		{"1T", 1e12, "1T"},
		{"1125899906842623", 1<<50 - 1, "1125899906842623"},
		{"1024Ti", 1 << 50, "1024Ti"},
	}
	for _, tt := range tests {
		var got Size
		if err := got.UnmarshalText([]byte(tt.text)); err != nil || got != tt.size {
			t.Errorf("%s: got %d, %v, want %d", tt.text, got, err, tt.size)
		}
		written, err := got.MarshalText()
		if err != nil || string(written) != tt.written {
			t.Errorf("%s: written as %s, %v, want %s", tt.text, written, err, tt.written)
		}
	}
}

func TestSizeRefuses(t *testing.T) {
	for _, text := range []string{"", "Mi", "-1", "+1", "1.5Gi", "1 Gi", "1GB", "1mi", "1K", "1KiKi", "0x10", "1025Ti", "4000000T", "1125899906842625", "9223372036854775808", "8388608Ti", strings.Repeat("9", 1000)} {
		size := Size(7)
		if err := size.UnmarshalText([]byte(text)); err == nil || size != 7 {
			t.Errorf("%.20q: got %d, %v, want an error and the old value", text, size, err)
		} else if len(err.Error()) > 200 {
			t.Errorf("%.20q: error has %d bytes, want a line", text, len(err.Error()))
		}
	}
}

func TestDuration(t *testing.T) {
	tests := []struct {
		text     string
		duration time.Duration
		written  string
	}{
		{"0", 0, "0s"},
		{"500ms", 500 * time.Millisecond, "500ms"},
		{"90s", 90 * time.Second, "1m30s"},
		{"10m", 10 * time.Minute, "10m"},
		{"24h", 24 * time.Hour, "24h"},
		{"1h10m", 70 * time.Minute, "1h10m"},
		{"1h30s", time.Hour + 30*time.Second, "1h0m30s"},
	}
	for _, tt := range tests {
		var got Duration
		if err := got.UnmarshalText([]byte(tt.text)); err != nil || got != Duration(tt.duration) {
			t.Errorf("%s: got %d, %v, want %d", tt.text, got, err, tt.duration)
		}
		written, err := got.MarshalText()
		if err != nil || string(written) != tt.written {
			t.Errorf("%s: written as %s, %v, want %s", tt.text, written, err, tt.written)
		}
	}
	for _, text := range []string{"", "5", "1d", "1 m", "s"} {
		got := Duration(7)
		if err := got.UnmarshalText([]byte(text)); err == nil || got != 7 {
			t.Errorf("%q: got %d, %v, want an error and the old value", text, got, err)
		}
	}
}

// Units of others are refused, and translated.
func TestUnitsMeant(t *testing.T) {
	for text, want := range map[string]string{
		"64MB": "64M", "64mb": "64M", "64 MiB": "64Mi", "64mib": "64Mi", "2GB": "2G", "1K": "1k", "1kb": "1k", "1kib": "1Ki", "1mi": "1Mi",
		"1.5Gi": "", "64": "", "lots": "", "-1MB": "", "5%": "", "999999999999999TB": "", "1.5": "",
	} {
		if got := sizeMeant(text); got != want {
			t.Errorf("size %s: got %q, want %q", text, got, want)
		}
	}
}
