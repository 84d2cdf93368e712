// Judges notes, keys, trees and proofs with golang.org/x/mod/sumdb. It reads one question for each
// line of standard input, as JSON, and answers each with one line of JSON.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// Question says in Ask what is asked; the other members are what it needs.
type Question struct {
	Ask     string
	Note    []byte
	Text    string
	Keys    []string
	Private string
	Proof   [][]byte
	Leaf    []byte
	Index   int64
	Size    int64
	Root    []byte
	OldSize int64
	OldRoot []byte
	Entries [][]byte
}

// Answer carries Fault where the answer is no.
type Answer struct {
	Fault  string
	Text   string
	Names  []string
	Note   []byte
	Hashes [][]byte
}

var stored tlog.HashReaderFunc
var storedHashes []tlog.Hash
var grown int64

func hash(octets []byte) (h tlog.Hash) {
	copy(h[:], octets)
	return h
}

func hashes(proof [][]byte) (all []tlog.Hash) {
	for _, octets := range proof {
		all = append(all, hash(octets))
	}
	return all
}

func octets(proof []tlog.Hash) (all [][]byte) {
	for _, h := range proof {
		h := h
		all = append(all, h[:])
	}
	return all
}

func open(q Question) (a Answer, err error) {
	var verifiers []note.Verifier
	for _, text := range q.Keys {
		v, err := note.NewVerifier(text)
		if err != nil {
			return a, err
		}
		verifiers = append(verifiers, v)
	}
	n, err := note.Open(q.Note, note.VerifierList(verifiers...))
	if err != nil {
		return a, err
	}
	a.Text = n.Text
	for _, s := range n.Sigs {
		a.Names = append(a.Names, s.Name)
	}
	return a, nil
}

func sign(q Question) (a Answer, err error) {
	s, err := note.NewSigner(q.Private)
	if err != nil {
		return a, err
	}
	a.Note, err = note.Sign(&note.Note{Text: q.Text}, s)
	return a, err
}

func grow(q Question) error {
	for _, entry := range q.Entries {
		more, err := tlog.StoredHashes(grown, entry, stored)
		if err != nil {
			return err
		}
		storedHashes = append(storedHashes, more...)
		grown++
	}
	return nil
}

func answer(q Question) (a Answer, err error) {
	switch q.Ask {
	case "open":
		return open(q)
	case "sign":
		return sign(q)
	case "grow":
		return a, grow(q)
	case "root":
		h, err := tlog.TreeHash(q.Size, stored)
		a.Hashes = octets([]tlog.Hash{h})
		return a, err
	case "prove inclusion":
		p, err := tlog.ProveRecord(q.Size, q.Index, stored)
		a.Hashes = octets(p)
		return a, err
	case "prove consistency":
		p, err := tlog.ProveTree(q.Size, q.OldSize, stored)
		a.Hashes = octets(p)
		return a, err
	case "check inclusion":
		return a, tlog.CheckRecord(hashes(q.Proof), q.Size, hash(q.Root), q.Index, hash(q.Leaf))
	case "check consistency":
		return a, tlog.CheckTree(hashes(q.Proof), q.Size, hash(q.Root), q.OldSize, hash(q.OldRoot))
	case "tile path":
		t := tlog.Tile{H: 8, L: int(q.Index), N: q.Size, W: int(q.OldSize)}
		a.Text = t.Path()
		return a, nil
	}
	return a, fmt.Errorf("not a question: %q", q.Ask)
}

func main() {
	stored = func(indexes []int64) (found []tlog.Hash, err error) {
		for _, i := range indexes {
			found = append(found, storedHashes[i])
		}
		return found, nil
	}
	lines := bufio.NewReaderSize(os.Stdin, 1<<20)
	questions := json.NewDecoder(lines)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	answers := json.NewEncoder(out)
	for questions.More() {
		var q Question
		if err := questions.Decode(&q); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		a, err := answer(q)
		if err != nil {
			a.Fault = err.Error()
		}
		if err := answers.Encode(a); err != nil {
			os.Exit(1)
		}
	}
}
