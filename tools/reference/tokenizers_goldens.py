#!/usr/bin/env python3
"""Trains small tokenizers that use every component and writes what the reference libraries make of test texts.

    tools/reference/tokenizers_goldens.py tests/data/tokenizers

Needs tokenizers==0.23.3, sentencepiece==0.2.3 and tiktoken==0.14.0. Nothing here comes from our own code.
"""
import base64
import io
import json
import os
import sys

import sentencepiece
import tiktoken
import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

CORPUS = """The quick brown fox jumps over the lazy dog. The dog's owner isn't amused, and they've said so.
In 2024 about 1,234,567 people read the first chapter; 89.5 percent finished it.
for (int i = 0; i < 10; ++i) { printf("%d\\n", i * 2); }  // a small loop
def tokenize(text: str) -> list[int]:\n    return [ord(c) for c in text]
Über den Wolken muß die Freiheit wohl grenzenlos sein. Ça va très bien, merci. El niño comió piñata.
안녕하세요, 오늘 날씨가 정말 좋네요. 토크나이저는 글을 조각으로 나눕니다.
今日はとても良い天気ですね。トークナイザーは文章を分割します。我想在苹果公司工作，今天天气很好。
Быстрая коричневая лиса прыгает через ленивую собаку. Η γρήγορη αλεπού. مرحبا بالعالم، كيف حالك؟
सभी मनुष्य स्वतंत्र पैदा होते हैं। สวัสดีชาวโลก วันนี้อากาศดี
""" * 3

TEXTS = [
    "", " ", "   ", "\t", "\n", "\n\n \n", "Hello, world!", " Hello", "  two  spaces ", "The quick brown fox.",
    "isn't they've I'LL WE'RE 'tis 's 'S 'ſ x'd", "3 33 333 3333 1234567 ٣٤٥ ½ Ⅳ", "for (int i = 0; i < 10; ++i) {\n\treturn;\n}",
    "안녕하세요 세계", "今日は天気。我想在apple工作1314151天～", "مرحبا بالعالم", "สวัสดีชาวโลก", "सभी मनुष्य हैं।",
    "é e\u0301 \u1100\u1161\u11a8 Å \u212b ﬁ ① ｶﾞ ㌀ İSTANBUL ẞ", "👨‍👩‍👧‍👦 🇰🇷 ❤️‍🔥 1️⃣", "a\0b\x01\x7f\x85c\u200b\u2028d\ufeff\ufffd",
    "\u0301\u0301x", "<s>hi</s> <unk> <pad>", "<|eot|>\n\n  <|eot|> x<|im|>y <mask>  z [MASK] [CLS]", "<0x41> ▁▁ Ġ ##ing </w> @@",
    "camelCase XMLHttpRequest iPhone15Pro ǅabc ABCdef", "!!!!!! ...--- \"a\" 'b' «c» $5 +1 x=y|z `q`", "a" * 300, " " * 70 + "x",
    "ab" * 200 + "나" * 50, "\r\n\r\n a\r\nb", "tabs\t\tand\u00a0nbsp\u3000wide", "hello.world ?no ! don 't do not 's", "Tokenizer tokenizer TOKENIZER",
    "日本語テキスト" * 8, "\U0010ffff\ue000\U000e0001", "word-with-dashes under_score a.b.c 1.2.3 x/y\\z", "day Day DAY monday day",
]

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN = LLAMA3.replace("{1,3}", "")
UP, LOW = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
SUFFIX, PREFIX = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?", r"[^\r\n\p{L}\p{N}]?"
O200K = "|".join([PREFIX + UP + "*" + LOW + "+" + SUFFIX, PREFIX + UP + "+" + LOW + "*" + SUFFIX,
                  r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"])
DEEPSEEK = [r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
            "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+"
            "| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"]
ALPHABET = pre_tokenizers.ByteLevel.alphabet()


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(pattern if isinstance(pattern, str) else pattern, behavior, invert)


def train_bpe(pre, normalizer=None, size=420, alphabet=ALPHABET, model=None, **trainer):
    t = Tokenizer(model or models.BPE())
    if normalizer:
        t.normalizer = normalizer
    if pre:
        t.pre_tokenizer = pre
    t.train_from_iterator(CORPUS.splitlines(True),
                          trainers.BpeTrainer(vocab_size=size, initial_alphabet=sorted(alphabet), show_progress=False, **trainer))
    return t


def byte_level(regex, normalizer=None, extra=()):
    parts = [split(Regex(r)) for r in ([regex] if isinstance(regex, str) else regex)]
    pre = pre_tokenizers.Sequence(parts + [pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t = train_bpe(pre, normalizer)
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens([AddedToken("<|bos|>", special=True), AddedToken("<|eot|>", special=True), *extra])
    t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(
        single="<|bos|> $A", special_tokens=[("<|bos|>", t.token_to_id("<|bos|>"))])])
    return t


def edited(t, **changes):
    """A tokenizer with members of its model changed, which the Python classes do not all offer."""
    data = json.loads(t.to_str())
    data["model"].update(changes)
    return Tokenizer.from_str(json.dumps(data))


def gpt2():
    t = train_bpe(pre_tokenizers.ByteLevel(add_prefix_space=True))
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens(["<s>", "</s>", AddedToken("<mask>", lstrip=True, special=True)])
    t.post_processor = processors.RobertaProcessing(("</s>", t.token_to_id("</s>")), ("<s>", t.token_to_id("<s>")))
    return t


def llama2():
    vocab = {"<unk>": 0, "<s>": 1, "</s>": 2, **{f"<0x{b:02X}>": 3 + b for b in range(256)}}
    trained = json.loads(train_bpe(None, normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]),
                                   size=400, alphabet=[]).to_str())["model"]
    for token in trained["vocab"]:
        if ord(token[0]) < 0x400 or "▁" in token:
            vocab.setdefault(token, len(vocab))
    merges = [tuple(m) for m in trained["merges"] if all(p in vocab for p in (*m, "".join(m)))]
    t = Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    t.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    t.add_special_tokens(["<unk>", "<s>", "</s>"])
    t.add_tokens([AddedToken("day", normalized=True), AddedToken("monday", normalized=True, single_word=True)])
    t.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return t


def gemma():
    t = llama2()
    t.normalizer = normalizers.Replace(" ", "▁")
    t.pre_tokenizer = split(" ", "merged_with_previous")
    t.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    return t


def metaspace(scheme, do_split):
    pre = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=do_split)
    t = train_bpe(pre, size=350, alphabet=[], model=models.BPE(unk_token="<unk>"), special_tokens=["<unk>", "<s>"])
    t.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Strip(right=False), normalizers.Replace(Regex(" {2,}"), " ")])
    t.decoder = decoders.Metaspace(prepend_scheme=scheme, split=do_split)
    return t


def wordpiece(lowercase, **options):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=40))
    t.normalizer = normalizers.BertNormalizer(lowercase=lowercase, **options)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    t.train_from_iterator(CORPUS.splitlines(True), trainers.WordPieceTrainer(vocab_size=500, special_tokens=special, show_progress=False))
    t.decoder = decoders.WordPiece()
    t.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return t


def suffix_bpe():
    t = train_bpe(pre_tokenizers.WhitespaceSplit(), normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase(), normalizers.StripAccents()]),
                  size=400, alphabet=[], model=models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"),
                  special_tokens=["<unk>"], end_of_word_suffix="</w>")
    t.decoder = decoders.BPEDecoder()
    return t


def prefix_bpe():
    pre = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.Digits(True)])
    t = train_bpe(pre, normalizers.NFKD(), size=450, alphabet=[],
                  model=models.BPE(unk_token="<unk>", continuing_subword_prefix="##", fuse_unk=True),
                  special_tokens=["<unk>"], continuing_subword_prefix="##")
    t.decoder = decoders.WordPiece(cleanup=False)
    return t


def word_level():
    t = Tokenizer(models.WordLevel(unk_token="[UNK]"))
    t.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFC(), normalizers.Lowercase()])
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.CharDelimiterSplit("o"), pre_tokenizers.UnicodeScripts(), pre_tokenizers.Whitespace()])
    t.train_from_iterator(CORPUS.splitlines(True), trainers.WordLevelTrainer(vocab_size=300, special_tokens=["[UNK]"], show_progress=False))
    return t


def ctc():
    chars = sorted(set(CORPUS.lower()) - set(" \n"))
    t = Tokenizer(models.WordLevel({"<pad>": 0, "|": 1, "<unk>": 2, **{c: i + 3 for i, c in enumerate(chars)}}, unk_token="<unk>"))
    t.normalizer = normalizers.Sequence([normalizers.Lowercase(), normalizers.Replace(" ", "|")])
    t.pre_tokenizer = pre_tokenizers.FixedLength(1)
    t.decoder = decoders.CTC()
    return t


def behaviors():
    """Every behaviour, literal and inverted, one after the other."""
    parts = [split(Regex("[aeiou]+"), "merged_with_previous"), split(Regex("[,.;]"), "merged_with_next"), split(Regex(r"\d"), "contiguous"),
             split("_", "removed"), split(Regex(r"\w+"), "isolated", True), pre_tokenizers.Digits(False), pre_tokenizers.ByteLevel(False)]
    t = train_bpe(pre_tokenizers.Sequence(parts))
    t.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 1)])
    return t


def added():
    t = byte_level(QWEN, normalizers.NFC(), [
        AddedToken("<mask>", lstrip=True, rstrip=True, special=True), AddedToken("[MASK]", lstrip=True), AddedToken("<|im|>", rstrip=True),
        AddedToken("day", single_word=True, normalized=False), AddedToken("e\u0301", normalized=True), AddedToken("<|", special=True),
        AddedToken("  ", normalized=False), AddedToken("    ", normalized=False)])
    return t


def unigram(sp_model, fallback):
    from sentencepiece import sentencepiece_model_pb2 as pb
    proto = pb.ModelProto.FromString(sp_model)
    pieces = [(p.piece, p.score) for p in proto.pieces]
    if fallback:
        pieces += [(f"<0x{b:02X}>", 0.0) for b in range(256)]
    t = Tokenizer(models.Unigram(pieces, 0, fallback))
    if fallback:
        t.normalizer = normalizers.NFKC()
    else:
        t.normalizer = normalizers.Sequence([normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap), normalizers.Replace(Regex(" {2,}"), " ")])
    t.pre_tokenizer = pre_tokenizers.Metaspace()
    t.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()]) if fallback else decoders.Metaspace()
    t.add_special_tokens(["<unk>", "<s>", "</s>"])
    t.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", t.token_to_id("</s>"))])
    return t


def train_sentencepiece(**options):
    out = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter([l for l in CORPUS.splitlines() if l.strip()]), model_writer=out,
                                             minloglevel=2, hard_vocab_limit=False, **options)
    return out.getvalue()


def hugging_face_cases(t):
    cases = []
    for text in TEXTS:
        entry = {"text": text}
        t.encode_special_tokens = False
        entry["ids"] = t.encode(text).ids
        t.encode_special_tokens = True
        entry["plain"] = t.encode(text, add_special_tokens=False).ids
        for key, skip in (("skip", True), ("full", False)):
            try:
                entry[key] = t.decode(entry["ids"], skip_special_tokens=skip)
            except BaseException as e:  # the reference's Strip and BPEDecoder panic on too little text
                assert "Panic" in type(e).__name__, e
        cases.append(entry)
    return cases


def plain_cases(encode, decode):
    return [{"text": text, "plain": encode(text), "skip": decode(encode(text))} for text in TEXTS]


def main():
    assert tokenizers.__version__ == "0.23.3" and sentencepiece.__version__ == "0.2.3" and tiktoken.__version__ == "0.14.0"
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    sp = {
        "sp_unigram.model": train_sentencepiece(vocab_size=240, model_type="unigram", character_coverage=0.98),
        "sp_bpe.model": train_sentencepiece(vocab_size=520, model_type="bpe", byte_fallback=True, normalization_rule_name="identity",
                                            remove_extra_whitespaces=False, character_coverage=0.98, user_defined_symbols=["<|im|>", "day"]),
        "sp_suffix.model": train_sentencepiece(vocab_size=220, model_type="unigram", normalization_rule_name="identity",
                                               treat_whitespace_as_suffix=True, add_dummy_prefix=True, character_coverage=0.98,
                                               user_defined_symbols=["▁▁", "day"]),
    }
    makers = {
        "gpt2": gpt2, "llama3": lambda: edited(byte_level(LLAMA3), ignore_merges=True),
        "qwen2": lambda: byte_level(QWEN, normalizers.NFC()), "o200k": lambda: byte_level(O200K),
        "deepseek": lambda: byte_level(DEEPSEEK), "llama2": llama2, "gemma": gemma,
        "metaspace_first": lambda: metaspace("first", False), "metaspace_always": lambda: metaspace("always", True),
        "metaspace_never": lambda: metaspace("never", True), "bert_lower": lambda: wordpiece(True),
        "bert_cased": lambda: wordpiece(False, strip_accents=True, clean_text=False, handle_chinese_chars=False),
        "suffix_bpe": suffix_bpe, "prefix_bpe": prefix_bpe, "word_level": word_level, "ctc": ctc, "behaviors": behaviors,
        "added": added, "unigram": lambda: unigram(sp["sp_unigram.model"], False),
        "unigram_fallback": lambda: unigram(sp["sp_unigram.model"], True),
    }
    golden = []
    for name, make in makers.items():
        t = make()
        with open(f"{folder}/{name}.json", "w") as out:
            out.write(json.dumps(json.loads(t.to_str()), ensure_ascii=False, separators=(",", ":")))
        golden.append({"file": f"{name}.json", "kind": "json", "cases": hugging_face_cases(t)})
    for name, data in sp.items():
        with open(f"{folder}/{name}", "wb") as out:
            out.write(data)
        s = sentencepiece.SentencePieceProcessor(model_proto=data)
        golden.append({"file": name, "kind": "sentencepiece", "cases": plain_cases(s.encode, s.decode)})
    write_tiktoken(folder, golden)
    with open(f"{folder}/golden.json", "w") as out:
        json.dump(golden, out, ensure_ascii=False, separators=(",", ":"))


def write_tiktoken(folder, golden):
    unprintable = {v: k for k, v in tiktoken_bytes().items()}
    model = json.loads(train_bpe(pre_tokenizers.ByteLevel(False)).to_str())["model"]
    ranks = {bytes([b]): b for b in range(256)}
    for left, right in model["merges"]:
        ranks.setdefault(bytes(unprintable[c] for c in left + right), len(ranks))
    with open(f"{folder}/ranks.tiktoken", "w") as out:
        out.writelines(f"{base64.b64encode(token).decode()} {rank}\n" for token, rank in ranks.items())
    pattern = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]"
               r"|\s+(?!\S)|\s")
    t = tiktoken.Encoding("test", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    golden.append({"file": "ranks.tiktoken", "kind": "tiktoken", "pattern": pattern, "cases": plain_cases(t.encode_ordinary, t.decode)})
    tekken = {"config": {"pattern": O200K, "num_vocab_tokens": len(ranks), "default_vocab_size": len(ranks) + 32 - 10,
                         "default_num_special_tokens": 32, "version": "v3"},
              "vocab": [{"rank": r, "token_bytes": base64.b64encode(b).decode(), "token_str": None} for b, r in ranks.items()]}
    with open(f"{folder}/tekken.json", "w") as out:
        json.dump(tekken, out, separators=(",", ":"))
    kept = {b: r for b, r in ranks.items() if r < len(ranks) - 10}
    k = tiktoken.Encoding("tekken", pat_str=O200K, mergeable_ranks=kept, special_tokens={})
    golden.append({"file": "tekken.json", "kind": "tekken",
                   "cases": plain_cases(lambda s: [i + 32 for i in k.encode_ordinary(s)], lambda ids: k.decode([i - 32 for i in ids]))})


def tiktoken_bytes():
    kept = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    out, extra = {b: chr(b) for b in kept}, 0
    for b in range(256):
        if b not in out:
            out[b] = chr(256 + extra)
            extra += 1
    return out


if __name__ == "__main__":
    main()
