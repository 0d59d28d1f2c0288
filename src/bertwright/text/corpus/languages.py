"""Codes of languages as names of columns: `en`, `pt_BR`, `eng_Latn`, `zh-Hans-CN`."""

from __future__ import annotations

import re

# ISO 639-1
_TWO = """
aa ab ae af ak am an ar as av ay az ba be bg bh bi bm bn bo br bs ca ce ch co cr cs cu cv cy da de
dv dz ee el en eo es et eu fa ff fi fj fo fr fy ga gd gl gn gu gv ha he hi ho hr ht hu hy hz ia id
ie ig ii ik io is it iu iw ja jv ka kg ki kj kk kl km kn ko kr ks ku kv kw ky la lb lg li ln lo lt
lu lv mg mh mi mk ml mn mr ms mt my na nb nd ne ng nl nn no nr nv ny oc oj om or os pa pi pl ps pt
qu rm rn ro ru rw sa sc sd se sg sh si sk sl sm sn so sq sr ss st su sv sw ta te tg th ti tk tl tn
to tr ts tt tw ty ug uk ur uz ve vi vo wa wo xh yi yo za zh zu
"""
# ISO 639-3: those of ISO 639-1, and others with much text; common abbreviations (msg, age) are
# codes of small languages
_THREE = """
aar abk ace acm acq aeb afr aka als amh apc ara arb arg ars ary arz asm ast ava awa ayr aze azb
azj bak bam ban bar bel bem ben bho bis bjn bod bos bre bug bul bxr cat ceb ces cha che chr chv
ckb cmn cor cos crh csb cym dan deu dik div dsb dyu dzo ell eng epo est eus ewe ext fao fas fij
fil fin fon fra frr fry fur fuv gaz gla gle glg glk glv grc grn gsw guj hat hau haw hbs heb hif
hil hin hne hrv hsb hun hye ibo ido iii iku ile ilo ina ind isl ita jam jav jbo jpn kab kac kal
kam kan kas kat kaz kbd kbp kea khk khm kik kin kir kmb kmr kom kon kor krc kur lao lat lav lez
lfn lij lim lin lit lld lmo ltg ltz lua lug luo lus lvs lzh mag mah mai mal mar mhr mkd mlg mlt
mni mon mos mri mrj msa mwl mya myv mzn nap nav nde ndo nds nep nld nno nob nor nov npi nso nus
nya oci olo ori orm ory oss pag pan pap pbt pcd pdc pes pfl plt pms pnb pol por prs pus que quy
roh ron run rus sag sah san sat scn sco shn sin slk slv sme smo sna snd som sot spa sqi srd srp
ssw stq sun swa swe swh szl tah tam taq tat tel tgk tgl tha tir tok ton tpi tsn tso tuk tum tur
twi tyv tzm udm uig ukr umb urd uzb uzn vec ven vep vie vls vol vro war wln wol wuu xal xho xmf
ydd yid yor yue zea zha zho zsm zul
"""
_SCRIPTS = """
arab armn beng bopo brai cans cher cyrl deva ethi geor grek gujr guru hang hani hans hant hebr
hira jpan kana khmr knda kore laoo latn mlym mong mtei mymr nkoo olck orya sinh syrc taml telu
tfng thaa thai tibt
"""
_CODES, _OF_SCRIPTS = frozenset((_TWO + _THREE).split()), frozenset(_SCRIPTS.split())
_FORM = re.compile(r"([a-z]{2,3}|[A-Z]{2,3})([-_][A-Za-z]{4})?([-_](?:[A-Za-z]{2}|\d{3}))?")


def is_language(name: str) -> bool:
    """Return whether a name is the code of a language, with a script or region or without.

    With a script, every code of three letters is one, since there are some 8,000.
    """
    if not (match := _FORM.fullmatch(name.strip())):
        return False
    code, script, _ = match.groups()
    if script and script[1:].lower() not in _OF_SCRIPTS:
        return False
    return code.lower() in _CODES or bool(script and len(code) == 3)
