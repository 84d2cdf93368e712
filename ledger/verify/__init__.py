"""The offline side: judges logs, receipts and exported folders with pinned keys and no server.

Sees the core only. Everything it says rests on bytes that it hashed itself; what it did not prove
it says too (formats, section 6).
"""

from __future__ import annotations

from ledger.verify.folder import FolderSource
from ledger.verify.log import Disclosed, EntriesSource, LogSource, SourceBroken, verify_log
from ledger.verify.policy import Policy, PolicyUnreadable, read_policy
from ledger.verify.receipt import verify_receipt_file
from ledger.verify.report import Code, Finding, Judgement, Report

__all__ = [
    "Code",
    "Disclosed",
    "EntriesSource",
    "Finding",
    "FolderSource",
    "Judgement",
    "LogSource",
    "Policy",
    "PolicyUnreadable",
    "Report",
    "SourceBroken",
    "read_policy",
    "verify_log",
    "verify_receipt_file",
]
