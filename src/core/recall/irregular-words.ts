/** `base:form,form`: forms that no removal of endings brings together. */
const FORMS =
  'arise:arose,arisen awake:awoke,awoken bear:bore,borne become:became begin:began,begun bend:bent bind:bound bite:bit,bitten blow:blew,blown ' +
  'break:broke,broken bring:brought build:built buy:bought catch:caught choose:chose,chosen come:came cling:clung creep:crept deal:dealt dig:dug ' +
  'draw:drew,drawn drink:drank,drunk drive:drove,driven eat:ate,eaten fall:fell,fallen feed:fed feel:felt fight:fought find:found flee:fled ' +
  'fly:flew,flown forbid:forbade,forbidden forget:forgot,forgotten forgive:forgave,forgiven freeze:froze,frozen get:got,gotten give:gave,given ' +
  'go:went,gone grind:ground grow:grew,grown hang:hung hear:heard hide:hid,hidden hold:held keep:kept kneel:knelt know:knew,known lay:laid lead:led ' +
  'learn:learnt leave:left lend:lent light:lit lose:lost make:made mean:meant meet:met pay:paid prove:proven ride:rode,ridden ring:rang,rung ' +
  'rise:rose,risen run:ran say:said see:saw,seen seek:sought sell:sold send:sent sew:sewn shake:shook,shaken shine:shone shoot:shot show:shown ' +
  'shrink:shrank,shrunk sing:sang,sung sink:sank,sunk sit:sat sleep:slept slide:slid speak:spoke,spoken spend:spent spin:spun stand:stood ' +
  'steal:stole,stolen stick:stuck sting:stung strike:struck string:strung swear:swore,sworn sweep:swept swim:swam,swum swing:swung take:took,taken ' +
  'teach:taught tear:tore,torn tell:told think:thought throw:threw,thrown understand:understood wake:woke,woken wear:wore,worn weave:wove,woven ' +
  'weep:wept win:won wind:wound withdraw:withdrew,withdrawn write:wrote,written ' +
  'child:children foot:feet goose:geese man:men mouse:mice person:people tooth:teeth woman:women wife:wives knife:knives leaf:leaves ' +
  'half:halves shelf:shelves self:selves wolf:wolves good:better,best bad:worse,worst far:farther,further';

const bases = new Map(
  FORMS.split(' ').flatMap((entry) => {
    const [base, forms] = entry.split(':') as [string, string];
    return forms.split(',').map((form): [string, string] => [form, base]);
  }),
);

/** `went` → `go`, `children` → `child`; any other word comes back as it is. Lower case. */
export function baseForm(word: string): string {
  return bases.get(word) ?? word;
}
