"""MongoDB options that are recognized and refused, each with the reason."""

from __future__ import annotations

UNSUPPORTED = {
    **dict.fromkeys(
        ("auth", "noauth"), "a router checks what users may do where it has a --keyFile",
    ),
    **dict.fromkeys(
        ("enableEncryption", "encryptionKeyFile"), "files are not encrypted",
    ),
    **dict.fromkeys(
        (
            "sslMode", "sslPEMKeyFile", "sslPEMKeyPassword", "sslClusterFile", "sslClusterPassword", "sslCAFile",
            "sslCRLFile", "sslWeakCertificateValidation", "sslAllowConnectionsWithoutCertificates",
            "sslAllowInvalidCertificates", "sslAllowInvalidHostnames", "sslDisabledProtocols", "sslOnNormalPorts",
            "tlsOnNormalPorts",
        ),
        "it is an old name; use --tlsMode and the other options that begin with tls",
    ),
    **dict.fromkeys(
        ("tlsCertificateSelector", "tlsClusterCertificateSelector"),
        "it is not implemented",
    ),
    **dict.fromkeys(
        ("nojournal", "nodur"), "every write is in the write-ahead log before it is acknowledged, always"
    ),
    **dict.fromkeys(
        (
            "dur", "smallfiles", "noprealloc", "nssize", "syncdelay", "quota", "wiredTigerCacheSizeGB",
            "wiredTigerCollectionBlockCompressor", "journalCommitInterval", "upgrade",
        ),
        "it belongs to another storage engine",
    ),
    **dict.fromkeys(
        ("master", "slave", "source", "only", "autoresync", "slavedelay"),
        "master/slave replication is gone; use --replSet",
    ),
    **dict.fromkeys(
        ("rest", "httpinterface", "jsonp", "nohttpinterface"), "there is no REST interface; a console is at --httpPort"
    ),
    **dict.fromkeys(
        (
            "syslog", "profile",
            "slowOpSampleRate", "notablescan", "objcheck", "listenBacklog", "maxConnsOverride",
            "cpu", "sysinfo", "localThreshold", "timeZoneInfo", "timeStampFormat",
            "traceExceptions", "enableMajorityReadConcern", "serviceExecutor", "test",
            "chunkSize",
        ),
        "it is not implemented",
    ),
}  # fmt: skip
